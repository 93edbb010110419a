module github.com/drover-io/drover/deploy/tools/sbom

go 1.26.0
