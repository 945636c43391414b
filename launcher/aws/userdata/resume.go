package userdata

import _ "embed"

// resumeScript adds a unit that restarts the kubelet after hibernation.
//
//go:embed resume.sh
var resumeScript string

// ResumeFile is the file name of its part in the archive.
const ResumeFile = "slipway-resume.sh"

// withResume appends the part where the instance hibernates.
func (in Input) withResume(parts []part) []part {
	if !in.Hibernates {
		return parts
	}
	unit := newPart(shellScriptType, resumeScript)
	unit.header["Content-Disposition"] = []string{`attachment; filename="` + ResumeFile + `"`}
	return append(parts, unit)
}
