package kernellog

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var booted = time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)

func TestRecordedKernelLogs(t *testing.T) {
	// Both are the log of one kill on this kernel, as two readers spell it.
	const group = "/mpiguard-TestKilledAtItsLimit-638173181"
	for _, c := range []struct {
		file string
		want Kill
	}{
		{"kmsg-6.18-cgroup-v1.txt", Kill{booted.Add(3517447047 * time.Microsecond), 26049, "memgroup.test", group, group}},
		{"dmesg-6.18-cgroup-v1.txt", Kill{booted.Add(3517796109 * time.Microsecond), 26075, "memgroup.test",
			"/mpiguard-TestChildUnderTheLimitOfItsParent-881614265/job/rank", "/mpiguard-TestChildUnderTheLimitOfItsParent-881614265"}},
	} {
		t.Run(c.file, func(t *testing.T) {
			f, err := os.Open("testdata/" + c.file)
			require.NoError(t, err)
			defer f.Close()
			kills, err := Parse(f, booted)
			require.NoError(t, err)
			assert.Equal(t, []Kill{c.want}, kills)
		})
	}
}

// Lines after the format strings of other kernels, and what must not be taken
// for a kill.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []Kill
	}{
		{"empty", "", nil},
		{"syslog(2)", "<3>[   12.000500] Memory cgroup out of memory: Killed process 7 (a) total-vm:1kB, anon-rss:1kB",
			[]Kill{{At: booted.Add(12*time.Second + 500*time.Microsecond), PID: 7, Program: "a"}}},
		{"dmesg --time-format iso", "2026-12-01T03:55:25,996663+01:00 Out of memory: Killed process 7 (a) total-vm:1kB",
			[]Kill{{At: time.Date(2026, 12, 1, 2, 55, 25, 996663000, time.UTC), PID: 7, Program: "a"}}},
		{"before 5.0", `[ 1.000000] Task in /job/a killed as a result of limit of /job
[ 1.000001] memory: usage 204800kB, limit 204800kB, failcnt 99
[ 1.000002] Memory cgroup out of memory: Kill process 9 (rank) score 900 or sacrifice child
[ 1.000003] Killed process 9 (rank) total-vm:1kB, anon-rss:1kB, file-rss:0kB`,
			[]Kill{{booted.Add(time.Second + 3*time.Microsecond), 9, "rank", "/job/a", "/job"}}},
		{"3.10 names the user first", "[ 1.000000] Killed process 9 (rank), UID 1000, total-vm:1kB, anon-rss:1kB",
			[]Kill{{At: booted.Add(time.Second), PID: 9, Program: "rank"}}},
		{"odd names", "[ 1.000000] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0-1,oom_memcg=/a,b=c:d,task_memcg=/a,b=c:d/x y,task=a) (b,pid=9,uid=0\n" +
			"[ 1.000001] Memory cgroup out of memory: Killed process 9 (a) (b) total-vm:1kB",
			[]Kill{{booted.Add(time.Second + time.Microsecond), 9, "a) (b", "/a,b=c:d/x y", "/a,b=c:d"}}},
		{"whole machine", "[ 1.000000] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/job,task=r,pid=9,uid=0\n" +
			"[ 1.000001] Out of memory: Killed process 9 (r) total-vm:1kB",
			[]Kill{{booted.Add(time.Second + time.Microsecond), 9, "r", "/job", ""}}},
		{"another process than the context", "[ 1.000000] oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/j,task_memcg=/j,task=r,pid=9,uid=0\n" +
			"[ 1.000001] Out of memory: Killed process 10 (q) total-vm:1kB",
			[]Kill{{At: booted.Add(time.Second + time.Microsecond), PID: 10, Program: "q"}}},
		{"no kill", "[ 1.0] Killed process\nKilled process x (a) total-vm:\nKill process 3 (a) score 1\noom_reaper: reaped process 9 (r)", nil},
		{"a line without end", strings.Repeat("x", 3*maxLogLine) + "\n[ 1.000000] Killed process 9 (r) total-vm:1kB",
			[]Kill{{At: booted.Add(time.Second), PID: 9, Program: "r"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(strings.NewReader(c.text), booted)
			require.NoError(t, err)
			for i := range got {
				got[i].At = got[i].At.UTC()
			}
			assert.Equal(t, c.want, got)
		})
	}
	got, _ := Parse(strings.NewReader("[ 1.000000] Killed process 9 (r) total-vm:1kB"), time.Time{})
	assert.True(t, got[0].At.IsZero(), "unknown when the machine was booted")
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"kmsg-6.18-cgroup-v1.txt", "dmesg-6.18-cgroup-v1.txt"} {
		b, err := os.ReadFile("testdata/" + name)
		require.NoError(f, err)
		f.Add(string(b))
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, err := Parse(strings.NewReader(s), booted)
		require.NoError(t, err)
	})
}
