// Drives the flow service through Poseidon's own client, for tests; nothing of it ships.
module strato.test/poseidon

go 1.24.0

require github.com/kubernetes-sigs/poseidon v0.0.0-20191205173908-67dd94ce956c

require (
	github.com/golang/glog v1.0.0 // indirect
	github.com/golang/mock v1.6.0 // indirect
	github.com/golang/protobuf v1.3.5 // indirect
	golang.org/x/net v0.0.0-20210405180319-a5a99cb37ef4 // indirect
	golang.org/x/sys v0.0.0-20210510120138-977fb7262007 // indirect
	golang.org/x/text v0.3.3 // indirect
	google.golang.org/genproto v0.0.0-20190819201941-24fa4b261c55 // indirect
	google.golang.org/grpc v1.27.1 // indirect
)
