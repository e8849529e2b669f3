package doctor

import "encoding/json"

// MarshalJSON writes the report with what follows from it: network, for each
// node, and findings. Bytes that are unknown are null, unlimited ones the string
// "unlimited".
func (r *Report) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Ranks    []Rank        `json:"ranks"`
		Nodes    []Node        `json:"nodes"`
		Links    []Link        `json:"links"`
		Network  []NodeNetwork `json:"network"`
		Silent   []Silent      `json:"silent"`
		Findings []Finding     `json:"findings"`
	}{list(r.Ranks), list(r.Nodes), list(r.Links), r.Network(), list(r.Silent), list(r.Findings())})
}

// list is never null in JSON.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
