package memory_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/incremental/memory"
)

// Pods that have no equal, however many, displace no class that is remembered, and none is kept of them. Of classes that come again the oldest goes.
func TestClassesOfOnePodDisplaceNone(t *testing.T) {
	m := memory.New[int]("Test", 64, func(string, any) {})
	pods := 0
	again := func(of string) *int {
		key, err := memory.KeyOf(of)
		if err != nil {
			t.Fatal(err)
		}
		class, err := m.Class(key, types.UID(fmt.Sprint(pods)), func() (*int, error) { return new(int), nil })
		if err != nil {
			t.Fatal(err)
		}
		return class
	}
	get := func(of string) *int {
		pods++
		return again(of)
	}
	if get("web") != nil || again("web") != nil {
		t.Error("a class is remembered of which one pod came")
	}
	web := get("web")
	for i := range 10000 {
		if get(fmt.Sprint("index ", i)) != nil || again(fmt.Sprint("index ", i)) != nil {
			t.Fatal("a class is remembered of which one pod came")
		}
	}
	if later := get("web"); web == nil || later != web || m.Len() != 1 {
		t.Errorf("got %p, want %p: one of %d classes", later, web, m.Len())
	}
	for i := range 64 {
		for range 2 {
			get(fmt.Sprint("twice ", i))
		}
	}
	if get("web") == web || m.Len() != 64 {
		t.Errorf("of 65 classes %d are remembered, and the oldest is", m.Len())
	}
}

// What no pod has needed for five minutes is given up, and with it the pods that the ledger holds on to.
func TestUnusedMemoryIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New[int]("Test", 64, func(string, any) {})
		cycle := framework.NewCycleState()
		if m.Update(cycle, nil); !m.Current(cycle) {
			t.Error("the ledger is not up to date after an update")
		}
		time.Sleep(4 * time.Minute)
		if m.Rest(); !m.Current(cycle) {
			t.Error("given up after four minutes")
		}
		time.Sleep(2 * time.Minute)
		if m.Rest(); m.Current(cycle) {
			t.Error("kept for six minutes")
		}
	})
}
