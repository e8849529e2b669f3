package blackbox

import (
	"fmt"
	"strconv"
	"strings"
)

const fileSuffix = ".mpiguard"

// fileName names the file of a rank so that the files of a run stand together
// and in order, and those of several runs can share a directory.
func fileName(h *Header) string {
	return fmt.Sprintf("%s_%04d_%s_%d%s", nameable(h.Run), h.Rank, nameable(h.Host), h.PID, fileSuffix)
}

// nameable is s with only letters, digits, '.' and '-' in it, and not too long.
func nameable(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case '0' <= r && r <= '9', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', r == '.', r == '-':
			return r
		}
		return '-'
	}, s)
	return cut(s, 64)
}

// headerOfName is what the name of a file says, for one whose header is damaged.
func headerOfName(name string) (h Header, ok bool) {
	base, ok := strings.CutSuffix(name, fileSuffix)
	f := strings.Split(base, "_")
	if !ok || len(f) != 4 {
		return h, false
	}
	rank, err1 := strconv.Atoi(f[1])
	pid, err2 := strconv.Atoi(f[3])
	return Header{Run: f[0], Rank: rank, Host: f[2], PID: pid}, err1 == nil && err2 == nil
}
