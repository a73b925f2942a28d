package supervise

import (
	"slices"
	"testing"
)

func TestInheritOmitsSecrets(t *testing.T) {
	for name, v := range map[string]string{
		"DESKHAND_TOKEN": "a", "DESKHAND_DATABASE": "b", "SANDBOX_AGENT_TOKEN": "c", "MY_SECRET": "d",
		"OPENAI_API_KEY": "e", "LC_TIME": "C", "HOME": "/h",
	} {
		t.Setenv(name, v)
	}
	tests := map[string]struct {
		clean bool
		want  []string
		gone  []string
	}{
		"everything": {
			want: []string{"OPENAI_API_KEY=e", "LC_TIME=C", "HOME=/h"},
			gone: []string{"DESKHAND_TOKEN=a", "DESKHAND_DATABASE=b", "SANDBOX_AGENT_TOKEN=c", "MY_SECRET=d"},
		},
		"minimal": {
			clean: true,
			want:  []string{"LC_TIME=C", "HOME=/h"},
			gone:  []string{"DESKHAND_TOKEN=a", "DESKHAND_DATABASE=b", "SANDBOX_AGENT_TOKEN=c", "MY_SECRET=d", "OPENAI_API_KEY=e"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := Inherit(tt.clean, "MY_SECRET")
			for _, kv := range tt.want {
				if !slices.Contains(got, kv) {
					t.Errorf("%s is missing", kv)
				}
			}
			for _, kv := range tt.gone {
				if slices.Contains(got, kv) {
					t.Errorf("%s is passed on", kv)
				}
			}
		})
	}
}

// TestNoEnvironment wants none of this program's tokens in a child without Spec.Env.
func TestNoEnvironment(t *testing.T) {
	t.Setenv("DESKHAND_TOKEN", "a")
	t.Setenv("SANDBOX_AGENT_TOKEN", "a")
	t.Setenv("OPENAI_API_KEY", "e")
	got, err := Spec{Path: "true"}.resolve()
	if err != nil || slices.Contains(got.env, "DESKHAND_TOKEN=a") || slices.Contains(got.env, "SANDBOX_AGENT_TOKEN=a") || !slices.Contains(got.env, "OPENAI_API_KEY=e") {
		t.Errorf("environment = %q, %v", got.env, err)
	}
}
