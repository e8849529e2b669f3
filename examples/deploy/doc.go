// Package deploy holds what runs a guarded job on Slurm and on Kubernetes, and
// what watches it; its tests try that out.
package deploy
