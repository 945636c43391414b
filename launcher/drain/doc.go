// Package drain decides, as a pure function, what happens before the first pod of a terminating node is evicted: room for its
// pods is planned and launched first, as long as that does not take too long. Which pods are evicted, and in which order, is
// decided by package disruption.
package drain
