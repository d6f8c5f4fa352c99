// Package filestorageextension is the file_storage extension of opentelemetry-collector-contrib
// with files that are checked before they are opened. The database behind it maps its file into
// memory and trusts what it reads there: a damaged page ends the process, at the start or later.
package filestorageextension
