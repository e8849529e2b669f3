package doctor

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBytes(t *testing.T) {
	for _, c := range []struct {
		b          Bytes
		json, text string
	}{
		{0, "0", "0 B"},
		{96 << 20, "100663296", "96 MiB"},
		{UnknownBytes, "null", "unknown"},
		{UnlimitedBytes, `"unlimited"`, "unlimited"},
		{-3 << 20, "-3145728", "-3.0 MiB"}, // headroom where a limit is passed
	} {
		text, err := json.Marshal(c.b)
		require.NoError(t, err)
		assert.Equal(t, c.json, string(text))
		back := struct{ B Bytes }{7}
		require.NoError(t, json.Unmarshal([]byte(`{"B":`+c.json+`}`), &back))
		assert.Equal(t, c.b, back.B)
		assert.Equal(t, c.text, c.b.String())
	}
	var b Bytes
	assert.Error(t, json.Unmarshal([]byte(`"much"`), &b))
}
