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

// TestInheritOmitsRelative wants no programs and libraries from the working directory of a child.
func TestInheritOmitsRelative(t *testing.T) {
	for _, name := range []string{"LD_LIBRARY_PATH", "PATH"} {
		for list, want := range map[string]string{"/a": "/a", "/a:/b:/c": "/a:/b:/c", "": "", "/a:": "/a", ":/a": "/a", "/a:b:./c:.": "/a", ".": ""} {
			t.Setenv(name, list)
			if got, _ := lookup(Inherit(false), name); got != want {
				t.Errorf("%s %q is passed on as %q, want %q", name, list, got, want)
			}
		}
	}
	t.Setenv("LD_LIBRARY_PATH", "/a;/b;")
	if got, _ := lookup(Inherit(true), "LD_LIBRARY_PATH"); got != "" {
		t.Errorf("a clean environment has LD_LIBRARY_PATH %q", got)
	}
	if got, _ := lookup(Inherit(false), "LD_LIBRARY_PATH"); got != "/a:/b" {
		t.Errorf("LD_LIBRARY_PATH is passed on as %q", got)
	}
}

// TestNoEnvironment wants no passwords, tokens or keys in a child without Spec.Env.
func TestNoEnvironment(t *testing.T) {
	for _, name := range []string{"DESKHAND_TOKEN", "SANDBOX_AGENT_TOKEN", "PGPASSWORD", "OPENAI_API_KEY", "LC_TIME", "LIBVA_DRIVER_NAME"} {
		t.Setenv(name, "v")
	}
	t.Setenv("LD_LIBRARY_PATH", "/v")
	got, err := Spec{Path: "true"}.resolve()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"DESKHAND_TOKEN", "SANDBOX_AGENT_TOKEN", "PGPASSWORD", "OPENAI_API_KEY"} {
		if slices.Contains(got.env, name+"=v") {
			t.Errorf("%s is passed on", name)
		}
	}
	for _, want := range []string{"LC_TIME=v", "LIBVA_DRIVER_NAME=v", "LD_LIBRARY_PATH=/v"} {
		if !slices.Contains(got.env, want) {
			t.Errorf("%s is missing", want)
		}
	}
}
