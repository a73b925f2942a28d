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

// TestInheritOmitsRelativeLibraries wants no libraries loaded from the working directory of a child.
func TestInheritOmitsRelativeLibraries(t *testing.T) {
	for path, want := range map[string]bool{"/a": true, "/a:/b;/c": true, "": false, "/a:": false, ":/a": false, "/a;": false, "/a:b": false} {
		t.Setenv("LD_LIBRARY_PATH", path)
		if slices.Contains(Inherit(false), "LD_LIBRARY_PATH="+path) != want {
			t.Errorf("%q: passed on: %v", path, !want)
		}
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
