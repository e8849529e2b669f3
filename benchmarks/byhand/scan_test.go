//go:build cgo

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The ranks read every line once, in whole lines.
func TestScan(t *testing.T) {
	var text bytes.Buffer
	for i := 0; text.Len() < 5*bufferBytes/2; i++ {
		fmt.Fprintf(&text, "%0*d\n", i%100, i)
	}
	for name, text := range map[string][]byte{
		"long": text.Bytes(), "no last end": text.Bytes()[:text.Len()-1], "short": []byte("a\nb\n\nccc\n"), "empty": nil,
	} {
		file := filepath.Join(t.TempDir(), "lines")
		require.NoError(t, os.WriteFile(file, text, 0o600))
		f, err := os.Open(file)
		require.NoError(t, err)
		for _, ranks := range []int64{1, 2, 3, 7, 64} {
			var all []byte
			for rank := range ranks {
				size := int64(len(text))
				err := scan(f, size*rank/ranks, size*(rank+1)/ranks, func(lines []byte) error {
					all = append(all, lines...)
					whole := len(all) == len(text) || len(lines) == 0 || bytes.HasSuffix(lines, []byte("\n"))
					assert.True(t, whole)
					return nil
				})
				require.NoError(t, err)
			}
			assert.True(t, bytes.Equal(text, all), "%s, %d ranks", name, ranks)
		}
		require.NoError(t, f.Close())
	}
}
