// Package job is what the host and process 1 of the virtual machine tell each
// other, as files of one shared folder.
package job

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// Dir is where the shared folder is in the machine, and Tmp where the disk is.
const (
	Dir = "/run/job"
	Tmp = "/run/tmp"
)

// The files of the shared folder. Exit is written last.
const (
	spec   = "job.json"
	Stdout = "stdout"
	Stderr = "stderr"
	Exit   = "exit"
)

// Job is what the machine is to do.
type Job struct {
	Args  []string // Args[0] is a path
	Env   []string
	Dir   string // the working directory
	Share string // a folder of the host to mount for writing too; empty for none
	Swap  bool   // /dev/vdb is to be swap space
	// Quit is after what time the command gets SIGQUIT, so that it can say where
	// it hangs; never if zero.
	Quit time.Duration
}

// Write stores the job in the shared folder.
func (j Job) Write(dir string) error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, spec), text, 0o600)
}

// Read is the job in the shared folder.
func Read(dir string) (j Job, err error) {
	text, err := os.ReadFile(filepath.Join(dir, spec))
	if err != nil {
		return j, err
	}
	return j, json.Unmarshal(text, &j)
}
