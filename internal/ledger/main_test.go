package ledger

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// long is set by MPIGUARD_LONG=1: tests that take a second or two then run for as
// long as the claims of the project ask for.
var long = os.Getenv("MPIGUARD_LONG") == "1"

// oftenOr returns how many times a test is to repeat what it does.
func oftenOr(short, often int) int {
	if long {
		return often
	}
	return short
}

// A test that needs other processes starts its own binary again, in a role.
const roleVariable = "MPIGUARD_LEDGER_TEST_ROLE"

// order is what the process in a role is told.
type order struct {
	Role   string
	Handle Handle
	Slot   int
	Seed   uint64
	Steps  int
}

var roles = map[string]func(order) error{}

func TestMain(m *testing.M) {
	text, ok := os.LookupEnv(roleVariable)
	if !ok {
		os.Exit(m.Run())
	}
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = roles[o.Role](o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, o.Role, o.Slot, err)
		os.Exit(1)
	}
	os.Exit(0)
}
