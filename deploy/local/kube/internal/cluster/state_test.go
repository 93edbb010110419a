package cluster

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"testing"
)

func TestStateIsWrittenAndRemoved(t *testing.T) {
	layout := Layout{Name: "edge01", Dir: t.TempDir()}
	want := State{
		Cluster:       "edge01",
		Server:        "https://127.0.0.1:16443",
		Kubeconfig:    layout.Kubeconfig(),
		SupervisorPID: 1,
		Ports:         Ports{APIServer: 16443, EtcdClient: 16444, EtcdPeer: 16445},
		Components:    map[string]ComponentState{Etcd: {PID: 2, Restarts: 3, Log: layout.Log(Etcd)}},
	}
	if err := layout.WriteState(want); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(layout.StateFile())
	if err != nil {
		t.Fatal(err)
	}
	var got State
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for range 2 { // removing what is gone is no error
		if err := layout.RemoveState(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(layout.StateFile()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the state file is still there: %v", err)
	}
}
