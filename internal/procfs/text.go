package procfs

import "bytes"

var colon = []byte(":")

// cutLine splits off the first line.
func cutLine(text []byte) (line, rest []byte) {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return text[:i], text[i+1:]
	}
	return text, nil
}

func trim(text []byte) []byte { return bytes.Trim(text, " \t\n") }

// number parses a decimal number after blanks and returns what follows it.
func number(text []byte) (n int64, rest []byte, ok bool) {
	i := 0
	for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
		i++
	}
	start := i
	for ; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
		if n > (1<<63-10)/10 {
			return 0, nil, false
		}
		n = n*10 + int64(text[i]-'0')
	}
	return n, text[i:], i > start
}

// maxKilobytes is above what any machine has and leaves room to add amounts up.
const maxKilobytes = 1 << 50

// kilobytes parses "  123 kB" into bytes, UnknownBytes when it is anything else.
func kilobytes(value []byte) int64 {
	n, unit, ok := number(value)
	if !ok || n > maxKilobytes || string(trim(unit)) != "kB" {
		return UnknownBytes
	}
	return n << 10
}
