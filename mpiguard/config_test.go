package mpiguard

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfigDefaults(t *testing.T) {
	c, err := Config{}.effective(nil)
	require.NoError(t, err)
	assert.NotNil(t, c.Logger)
	c.Logger = nil
	assert.Equal(t, Config{KeepFree: 0.08, ElevatedAt: 0.70, HighAt: 0.85, CriticalAt: 0.95,
		ReleaseAfter: time.Second, ExhaustedAfter: 5 * time.Second, CollectiveTimeout: 5 * time.Minute}, c)
}

func TestConfigVariables(t *testing.T) {
	c, err := Config{LimitBytes: 1, KeepFree: 0.5}.effective([]string{
		"HOME=/nowhere", "MPIGUARD_LIMIT=2GiB", "MPIGUARD_KEEP_FREE=0.1", "MPIGUARD_ELEVATED_AT=0.1",
		"MPIGUARD_HIGH_AT=0.2", "MPIGUARD_CRITICAL_AT=0.3", "MPIGUARD_RELEASE_AFTER=30ms",
		"MPIGUARD_COLLECTIVE_TIMEOUT=1m30s", "MPIGUARD_KEEP_GO_LIMIT=true",
		"MPIGUARD_RECORD=/somewhere", "MPIGUARD_RECORD_CRASH=1", "MPIGUARD_INPUT=5MB", "MPIGUARD_EXHAUSTED_AFTER=2s", "MPIGUARD_ABORT_CODE=75", "MPIGUARD_LOG=", "MPIGUARD_UNKNOWN=is for a newer version",
	})
	require.NoError(t, err)
	c.Logger = nil
	assert.Equal(t, Config{LimitBytes: 2 << 30, KeepFree: 0.1, ElevatedAt: 0.1, HighAt: 0.2, CriticalAt: 0.3,
		ReleaseAfter: 30 * time.Millisecond, CollectiveTimeout: 90 * time.Second, KeepGoLimit: true,
		ExhaustedAfter: 2 * time.Second, AbortCode: 75,
		RecordDir: "/somewhere", RecordCrash: true, InputBytes: 5_000_000}, c)
}

func TestConfigErrorsNameTheInput(t *testing.T) {
	for _, variable := range []string{
		"MPIGUARD_LIMIT=lots", "MPIGUARD_LIMIT=-1", "MPIGUARD_KEEP_FREE=a tenth", "MPIGUARD_ELEVATED_AT=x",
		"MPIGUARD_HIGH_AT=0,5", "MPIGUARD_CRITICAL_AT=--", "MPIGUARD_RELEASE_AFTER=5", "MPIGUARD_COLLECTIVE_TIMEOUT=1 m",
		"MPIGUARD_LOG=loud", "MPIGUARD_KEEP_GO_LIMIT=perhaps",
		"MPIGUARD_EXHAUSTED_AFTER=soon", "MPIGUARD_ABORT_CODE=x", "MPIGUARD_RECORD_CRASH=x", "MPIGUARD_INPUT=x", "MPIGUARD_LIMIT=" + strings.Repeat("9", 10_000),
	} {
		_, err := Config{}.effective([]string{variable})
		name, value, _ := strings.Cut(variable, "=")
		require.ErrorContains(t, err, name, variable)
		if len(value) < 100 {
			require.ErrorContains(t, err, value, variable)
		}
		assert.Less(t, len(err.Error()), 200, variable)
	}
	for field, c := range map[string]Config{
		"Config.LimitBytes":                      {LimitBytes: -1},
		"Config.KeepFree":                        {KeepFree: 1},
		"Config.ElevatedAt, HighAt, CriticalAt":  {HighAt: 0.6},
		"Config.ElevatedAt, HighAt, CriticalAt ": {CriticalAt: 1.1},
		"Config.ReleaseAfter":                    {ReleaseAfter: -1},
		"Config.CollectiveTimeout":               {CollectiveTimeout: -1},
		"Config.ExhaustedAfter":                  {ExhaustedAfter: -1},
		"Config.InputBytes":                      {InputBytes: -1},
		"Config.AbortCode":                       {AbortCode: 256},
	} {
		_, err := c.effective(nil)
		require.ErrorContains(t, err, strings.TrimSpace(field))
	}
}

func FuzzConfigVariables(f *testing.F) {
	f.Add("2GiB", "0.1", "1s")
	f.Fuzz(func(t *testing.T, limit, fraction, duration string) {
		c, err := Config{}.effective([]string{"MPIGUARD_LIMIT=" + limit, "MPIGUARD_KEEP_FREE=" + fraction,
			"MPIGUARD_CRITICAL_AT=" + fraction, "MPIGUARD_RELEASE_AFTER=" + duration})
		if err == nil {
			assert.GreaterOrEqual(t, c.LimitBytes, int64(0))
			assert.True(t, c.KeepFree > 0 && c.KeepFree < 1)
			assert.True(t, c.CriticalAt > c.HighAt && c.CriticalAt <= 1)
		}
	})
}
