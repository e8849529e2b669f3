package deploy

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/assert/yaml"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/recommend"
	"github.com/mpiguard/mpiguard/internal/size"
	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/promguard"
)

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &v))
	return v
}

// at follows keys and indices into a document.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, ok := v.(map[string]any)
			require.True(t, ok && m[p] != nil, "no %v in %v", p, path)
			v = m[p]
		case int:
			v = v.([]any)[p]
		}
	}
	return v
}

// The manifest asks for what recommend prints for a run of four ranks that
// needed 210 MiB.
func TestMPIJob(t *testing.T) {
	text, err := os.ReadFile("kubernetes/mpijob.yaml")
	require.NoError(t, err)
	job := parse(t, string(text))
	assert.Equal(t, "kubeflow.org/v2beta1", at(t, job, "apiVersion"))
	assert.Equal(t, "MPIJob", at(t, job, "kind"))
	slots := at(t, job, "spec", "slotsPerWorker").(int)
	a, err := recommend.Advise([]recommend.Measurement{{Run: "r", RanksPerNode: 4, PeakBytes: 210 << 20, RankBytes: 50 << 20, SharedBytes: 10 << 20}}, recommend.Query{})
	require.NoError(t, err)
	assert.Equal(t, a.RanksPerNode, slots)
	worker := at(t, job, "spec", "mpiReplicaSpecs", "Worker")
	pod := at(t, worker, "template", "spec")
	assert.Equal(t, parse(t, a.Kubernetes())["resources"], at(t, pod, "containers", 0, "resources"))

	ranks := slots * at(t, worker, "replicas").(int)
	assert.Contains(t, at(t, job, "spec", "mpiReplicaSpecs", "Launcher", "template", "spec", "containers", 0, "command"), fmt.Sprint(ranks))
	assert.Equal(t, "Memory", at(t, pod, "volumes", 0, "emptyDir", "medium"))
	shm, err := size.Parse(at(t, pod, "volumes", 0, "emptyDir", "sizeLimit").(string))
	require.NoError(t, err)
	assert.Less(t, shm, a.MemBytes/2, "what lies in /dev/shm counts against the limit")
}

// still is a guard of one of two nodes with four ranks each.
type still struct {
	node  int
	level mpiguard.Level
}

func (still) Usage() mpiguard.Usage    { return mpiguard.Usage{AnonBytes: 50 << 20} }
func (still) Budget() *mpiguard.Budget { return &mpiguard.Budget{} }
func (s still) Stats() mpiguard.Stats {
	st := mpiguard.Stats{Rank: 4 * s.node, Size: 8}
	for i := range 4 {
		st.Node = append(st.Node, mpiguard.NodeRank{Rank: 4*s.node + i, Level: s.level, AnonBytes: 50 << 20})
	}
	return st
}

// All names in the dashboard and the rules are exported.
func TestNamesAreExported(t *testing.T) {
	exported := map[string]bool{}
	descs := make(chan *prometheus.Desc, 100)
	promguard.NewCollector(still{}, nil).Describe(descs)
	close(descs)
	for d := range descs {
		exported[regexp.MustCompile(`fqName: "([^"]*)"`).FindStringSubmatch(d.String())[1]] = true
	}
	for _, file := range []string{"grafana/dashboard.json", "grafana/alerts.yml"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		names := regexp.MustCompile(`mpiguard_\w+`).FindAllString(string(text), -1)
		require.NotEmpty(t, names)
		for _, n := range names {
			n = strings.TrimSuffix(strings.TrimSuffix(n, "_seconds_sum"), "_seconds_count")
			assert.True(t, exported[n] || exported[n+"_seconds"], "%s: %s is not exported", file, n)
		}
	}
	text, _ := os.ReadFile("grafana/dashboard.json")
	assert.True(t, json.Valid(text))
}

func tool(t *testing.T, name string) string {
	path, err := exec.LookPath(name)
	lab.Need(t, err == nil, name+" is in Debian's package prometheus")
	return path
}

func TestAlertRules(t *testing.T) {
	cmd := exec.Command(tool(t, "promtool"), "test", "rules", "alerts_test.yml")
	cmd.Dir = "grafana"
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err, "%s", out)
}

func freeAddr(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// A Prometheus scrapes two nodes of four ranks, one target each; one is at High,
// and the alert of that one fires.
func TestPrometheusScrapesTwoNodes(t *testing.T) {
	prometheus := tool(t, "prometheus")
	nodes := []string{freeAddr(t), freeAddr(t)}
	for i, level := range []mpiguard.Level{mpiguard.Normal, mpiguard.High} {
		stop, err := promguard.Serve(still{i, level}, nodes[i], nil)
		require.NoError(t, err)
		defer stop()
	}
	dir := t.TempDir()
	rules, err := os.ReadFile("grafana/alerts.yml")
	require.NoError(t, err)
	quick := strings.NewReplacer("for: 1m", "for: 1s", "for: 15s", "for: 1s").Replace(string(rules))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts.yml"), []byte(quick), 0o600))
	config := fmt.Sprintf(`global: {scrape_interval: 500ms, scrape_timeout: 400ms, evaluation_interval: 500ms}
rule_files: [alerts.yml]
scrape_configs: [{job_name: sim, static_configs: [{targets: [%q, %q]}]}]
`, nodes[0], nodes[1])
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600))
	addr := freeAddr(t)
	cmd := exec.Command(prometheus, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address="+addr)
	var log strings.Builder
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()

	get := func(path string) string {
		resp, err := http.Get("http://" + addr + path)
		if err != nil {
			return ""
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return string(text)
	}
	require.Eventually(t, func() bool { return strings.Contains(get("/api/v1/alerts"), `"state":"firing"`) }, 30*time.Second, 200*time.Millisecond, "no alert fired")
	var alerts struct {
		Data struct {
			Alerts []struct{ Labels map[string]string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(get("/api/v1/alerts")), &alerts))
	require.Len(t, alerts.Data.Alerts, 1)
	assert.Equal(t, map[string]string{"alertname": "MPIMemoryHigh", "severity": "warning", "job": "sim", "instance": nodes[1]}, alerts.Data.Alerts[0].Labels)
	var ranks struct {
		Data struct {
			Result []struct{ Metric map[string]string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(get("/api/v1/query?query=mpiguard_rank_level")), &ranks))
	assert.Len(t, ranks.Data.Result, 8, "eight ranks through two targets")
}
