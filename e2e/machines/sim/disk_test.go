package sim_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A machine that was stopped comes back under its name, sooner than at its first boot, and its images are there.
func TestAStoppedMachineComesBack(t *testing.T) {
	inBoth(t, func(w *world) {
		m := machine()
		off := w.boot(m)
		w.at(40 * time.Second)
		w.bind(pod("a", "100m"))
		w.at(45 * time.Second)
		if p := w.pod("a"); p.Status.Phase != corev1.PodRunning {
			t.Fatalf("before the stop the pod is %s", p.Status.Phase)
		}
		off()
		for _, err := range []error{
			w.client.CoreV1().Pods("default").Delete(w.ctx, "a", metav1.DeleteOptions{}),
			w.client.CoreV1().Nodes().Delete(w.ctx, nodeName, metav1.DeleteOptions{}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		w.at(100 * time.Second)
		m.Launched, m.Starts = time.Now(), 1
		w.boot(m)
		w.at(112*time.Second + 100*time.Millisecond)
		if _, err := w.client.CoreV1().Nodes().Get(w.ctx, nodeName, metav1.GetOptions{}); err != nil {
			t.Errorf("12 s after its start: %v", err)
		}
		w.at(116 * time.Second)
		w.bind(pod("b", "100m"))
		w.at(117 * time.Second) // Sandbox and container, no pull.
		if p := w.pod("b"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("with its image on the disk the pod is %s", p.Status.Phase)
		}
	})
}

// A machine whose user data have the prefetch unit pulls what its Node lists until that is Ready: a pod finds its image.
func TestPrefetch(t *testing.T) {
	inBoth(t, func(w *world) {
		m := machine()
		m.UserData = "Content-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: application/node.eks.aws\n\n" + userData +
			"\n--x\nContent-Type: text/x-shellscript\nContent-Disposition: attachment; filename=slipway-prefetch.sh\n\n#!/bin/bash\n--x--\n"
		w.createNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Annotations: map[string]string{"slipway.dev/prefetch": "nginx:1"}}})
		w.boot(m)
		w.at(40 * time.Second)
		for _, image := range []string{"nginx:1", "other:1"} {
			p := pod(image[:5], "100m")
			p.Spec.Containers[0].Image = image
			w.bind(p)
		}
		w.at(41 * time.Second) // Sandbox and container, no pull.
		if p := w.pod("nginx"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("with its image on the disk the pod is %s", p.Status.Phase)
		}
		if p := w.pod("other"); p.Status.Phase == corev1.PodRunning {
			t.Error("a pod runs whose image was not pulled")
		}
	})
}

// A machine that was hibernated is back sooner than one that was stopped.
func TestAHibernatedMachineGoesOn(t *testing.T) {
	inBoth(t, func(w *world) {
		m := machine()
		off := w.boot(m)
		w.at(40 * time.Second)
		off()
		if err := w.client.CoreV1().Nodes().Delete(w.ctx, nodeName, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.at(100 * time.Second)
		m.Launched, m.Starts, m.Hibernated = time.Now(), 1, true
		w.boot(m)
		w.at(108*time.Second + 100*time.Millisecond)
		if _, err := w.client.CoreV1().Nodes().Get(w.ctx, nodeName, metav1.GetOptions{}); err != nil {
			t.Errorf("8 s after its start: %v", err)
		}
	})
}
