package report

import (
	_ "embed"
	"html/template"
	"io"
	"time"

	"github.com/mpiguard/mpiguard/internal/blackbox"
)

//go:embed page.html.tmpl
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"size":    size,
	"signed":  signed,
	"clock":   clock,
	"seconds": seconds,
	"share":   share,
	"millis":  func(t time.Time) string { return t.Format("15:04:05.000") },
	"bar":     (*Node).bar,
	"phase":   func(r *Rank, p blackbox.Phase) []string { took, growth := r.outcome(p); return []string{took, growth} },
}).Parse(pageText))

// share is a part of a whole in percent, 0 to 100.
func share(part, whole int64) int64 {
	if whole <= 0 || part <= 0 {
		return 0
	}
	return min(int64(float64(part)/float64(whole)*100), 100)
}

// closeUp is the stretch before the end that the page shows apart, where the run
// took several times as long.
const closeUp = 20 * time.Second

type pageNode struct {
	*Node
	Title    string
	Pictures []picture
	MaxBytes int64 // of the bars in the table
	Shared   bool  // the ranks are of one process
	Phased   bool
	Reserved bool
}

type picture struct {
	Caption string
	SVG     template.HTML
	Height  int
}

// HTML writes the report of several runs as one page that needs nothing else: no
// network, no script.
func HTML(w io.Writer, runs []*Run) error {
	type pageRun struct {
		*Run
		Heading string
		Calm    bool // nothing went wrong
		Nodes   []pageNode
	}
	var data []pageRun
	for _, run := range runs {
		p := pageRun{Run: run, Heading: run.heading(), Calm: run.calm()}
		for _, n := range run.Nodes {
			p.Nodes = append(p.Nodes, n.page(run))
		}
		data = append(data, p)
	}
	return page.Execute(w, data)
}

func (n *Node) page(run *Run) pageNode {
	p := pageNode{Node: n, Title: n.title()}
	add := func(caption string, from, to time.Time) {
		d := n.picture(from, to)
		p.Pictures = append(p.Pictures, picture{caption, template.HTML(d.body), d.height}) // made of numbers and escaped text
	}
	add("the whole run", run.Start, run.End)
	if run.End.Sub(run.Start) > 3*closeUp {
		add("the last "+seconds(closeUp), run.End.Add(-closeUp), run.End)
	}
	p.Shared = n.process() != nil
	for _, r := range n.Ranks {
		if r.Last != nil {
			p.MaxBytes = max(p.MaxBytes, n.bar(r.Last)[1])
		}
		p.Phased = p.Phased || len(r.Phases) > 0
		p.Reserved = p.Reserved || len(r.Holders) > 0
	}
	return p
}

// bar is what a rank holds and the most that it held; what ranks of one process
// have reserved, of which no peak is known.
func (n *Node) bar(s *blackbox.Sample) [2]int64 {
	if n.process() != nil {
		return [2]int64{s.ReservedBytes, s.ReservedBytes}
	}
	return [2]int64{s.AnonBytes, s.PeakAnonBytes}
}

// calm reports whether no rank ended badly.
func (run *Run) calm() bool {
	for _, n := range run.Nodes {
		for _, r := range n.Ranks {
			if r.Fate != Closed && r.Fate != Running {
				return false
			}
		}
	}
	return true
}
