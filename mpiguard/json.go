package mpiguard

import (
	"encoding/json"
	"strconv"
	"time"
)

// jsonBytes is a number of bytes in JSON: null where it is unknown, the string
// "unlimited" where there is no limit.
type jsonBytes int64

func (n jsonBytes) MarshalJSON() ([]byte, error) {
	switch int64(n) {
	case UnknownBytes:
		return []byte("null"), nil
	case UnlimitedBytes:
		return []byte(`"unlimited"`), nil
	}
	return strconv.AppendInt(nil, int64(n), 10), nil
}

// MarshalJSON writes the survey with keys in snake case, as mpiguard explain
// does. Bytes that are unknown are null, unlimited ones the string "unlimited".
func (s *Survey) MarshalJSON() ([]byte, error) {
	type rank struct {
		Rank             int       `json:"rank"`
		Host             string    `json:"host"`
		Node             int       `json:"node"`
		Process          int       `json:"process"`
		PID              int       `json:"pid"`
		Level            Level     `json:"level"`
		HeadroomBytes    jsonBytes `json:"headroom_bytes"`
		Binding          string    `json:"binding"`
		LimitBytes       jsonBytes `json:"limit_bytes"`
		UsedBytes        jsonBytes `json:"used_bytes"`
		At               time.Time `json:"at"`
		AnonBytes        jsonBytes `json:"anon_bytes"`
		ShmemBytes       jsonBytes `json:"shmem_bytes"`
		FileBytes        jsonBytes `json:"file_bytes"`
		PeakBytes        jsonBytes `json:"peak_bytes"`
		GoBytes          jsonBytes `json:"go_bytes"`
		NonGoBytes       jsonBytes `json:"non_go_bytes"`
		ReservedBytes    jsonBytes `json:"reserved_bytes"`
		UntouchedBytes   jsonBytes `json:"untouched_bytes"`
		UnaccountedBytes jsonBytes `json:"unaccounted_bytes"`
	}
	type node struct {
		Host          string    `json:"host"`
		Ranks         int       `json:"ranks"`
		Level         Level     `json:"level"`
		HeadroomBytes jsonBytes `json:"headroom_bytes"`
		Binding       string    `json:"binding"`
		LimitBytes    jsonBytes `json:"limit_bytes"`
		UsedBytes     jsonBytes `json:"used_bytes"`
		AnonBytes     jsonBytes `json:"anon_bytes"`
		ShmemBytes    jsonBytes `json:"shmem_bytes"`
	}
	out := struct {
		Ranks []rank `json:"ranks"`
		Nodes []node `json:"nodes"`
	}{}
	for _, r := range s.Ranks {
		out.Ranks = append(out.Ranks, rank{
			r.Rank, r.Host, r.Node, r.Process, r.PID, r.Level,
			jsonBytes(r.HeadroomBytes), r.Binding, jsonBytes(r.LimitBytes), jsonBytes(r.UsedBytes),
			r.At, jsonBytes(r.AnonBytes), jsonBytes(r.ShmemBytes), jsonBytes(r.FileBytes), jsonBytes(r.PeakBytes),
			jsonBytes(r.GoBytes), jsonBytes(r.NonGoBytes),
			jsonBytes(r.ReservedBytes), jsonBytes(r.UntouchedBytes), jsonBytes(r.UnaccountedBytes),
		})
	}
	for _, n := range s.Nodes {
		out.Nodes = append(out.Nodes, node{
			n.Host, n.Ranks, n.Level, jsonBytes(n.HeadroomBytes), n.Binding, jsonBytes(n.LimitBytes),
			jsonBytes(n.UsedBytes), jsonBytes(n.AnonBytes), jsonBytes(n.ShmemBytes),
		})
	}
	return json.Marshal(out)
}
