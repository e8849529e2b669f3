package mpiguard

import "encoding/json"

// MarshalJSON writes the budget with the keys budget_bytes, headroom_bytes,
// binding (source and path of the constraint that binds, null if none does) and
// constraints, each with source, path, scope, kind, limit_bytes and used_bytes.
// Bytes that are unknown are null, unlimited ones the string "unlimited".
func (b *Budget) MarshalJSON() ([]byte, error) {
	type constraint struct {
		Source     string    `json:"source"`
		Path       string    `json:"path"`
		Scope      Scope     `json:"scope"`
		Kind       Kind      `json:"kind"`
		LimitBytes jsonBytes `json:"limit_bytes"`
		UsedBytes  jsonBytes `json:"used_bytes"`
	}
	out := struct {
		BudgetBytes   jsonBytes    `json:"budget_bytes"`
		HeadroomBytes jsonBytes    `json:"headroom_bytes"`
		Binding       *string      `json:"binding"`
		Constraints   []constraint `json:"constraints"`
	}{jsonBytes(b.LimitBytes()), jsonBytes(b.HeadroomBytes()), nil, []constraint{}}
	if c := b.Binding(); c != nil {
		label := c.label()
		out.Binding = &label
	}
	for _, c := range b.Constraints {
		out.Constraints = append(out.Constraints, constraint{
			c.Source, c.Path, c.Scope, c.Kind, jsonBytes(c.LimitBytes), jsonBytes(c.UsedBytes),
		})
	}
	return json.Marshal(out)
}
