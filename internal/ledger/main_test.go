package ledger

import "os"

// long is set by MPIGUARD_LONG=1: tests that take a few seconds then run for as
// long as the claims of the project ask for.
var long = os.Getenv("MPIGUARD_LONG") == "1"
