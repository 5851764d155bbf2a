// A framework on mesos-go's HTTP scheduler, which speaks protobuf: three commands, one of which is killed.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sort"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/encoding/codecs"
	"github.com/mesos/mesos-go/api/v1/lib/extras/scheduler/callrules"
	"github.com/mesos/mesos-go/api/v1/lib/extras/scheduler/controller"
	"github.com/mesos/mesos-go/api/v1/lib/extras/scheduler/eventrules"
	"github.com/mesos/mesos-go/api/v1/lib/extras/store"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/httpsched"
	"github.com/mesos/mesos-go/api/v1/lib/resources"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/events"
)

var commands = map[string]string{
	"ok": "sleep 1; exit 0", "fails": "sleep 1; exit 3", "long": "sleep 1000",
}

type framework struct {
	ctx      context.Context
	stop     context.CancelFunc
	caller   calls.Caller
	launched bool
	final    map[string]string
}

func (f *framework) send(call *scheduler.Call) error { return calls.CallNoData(f.ctx, f.caller, call) }

func (f *framework) offers(_ context.Context, e *scheduler.Event) error {
	for _, offer := range e.GetOffers().GetOffers() {
		var tasks []mesos.TaskInfo
		if !f.launched {
			f.launched = true
			for name, line := range commands {
				value, needed := line, mesos.Resources{}
				needed.Add(resources.NewCPUs(0.1).Resource, resources.NewMemory(64).Resource)
				tasks = append(tasks, mesos.TaskInfo{
					Name: name, TaskID: mesos.TaskID{Value: name}, AgentID: offer.AgentID,
					Command: &mesos.CommandInfo{Value: &value}, Resources: needed,
				})
			}
		}
		accept := calls.Accept(calls.OfferOperations{calls.OpLaunch(tasks...)}.WithOffers(offer.ID))
		if err := f.send(accept.With(calls.RefuseSeconds(time.Second))); err != nil {
			return err
		}
	}
	return nil
}

func (f *framework) update(_ context.Context, e *scheduler.Event) error {
	status := e.GetUpdate().GetStatus()
	name, state := status.TaskID.Value, status.GetState().String()
	fmt.Fprintln(os.Stderr, name, state, status.GetMessage())
	if name == "long" && state == "TASK_RUNNING" {
		return f.send(calls.Kill(name, status.AgentID.Value))
	}
	switch state {
	case "TASK_FINISHED", "TASK_FAILED", "TASK_KILLED", "TASK_LOST", "TASK_ERROR":
		f.final[name] = state
	}
	if len(f.final) == len(commands) {
		f.stop()
	}
	return nil
}

func main() {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	f := &framework{ctx: ctx, stop: stop, final: map[string]string{}}
	id := store.NewInMemorySingleton()
	options := []httpcli.Opt{
		httpcli.Endpoint(os.Args[1] + "/api/v1/scheduler"),
		httpcli.Codec(codecs.ByMediaType[codecs.MediaTypeProtobuf]),
	}
	if len(os.Args) > 2 { // the certificate of an authority
		pem, err := os.ReadFile(os.Args[2])
		authorities := x509.NewCertPool()
		if err != nil || !authorities.AppendCertsFromPEM(pem) {
			fmt.Fprintln(os.Stderr, "no certificate in", os.Args[2], err)
			os.Exit(1)
		}
		trust := httpcli.TLSConfig(&tls.Config{RootCAs: authorities})
		options = append(options, httpcli.Do(httpcli.With(trust)))
	}
	client := httpcli.New(options...)
	f.caller = callrules.New(callrules.WithFrameworkID(store.GetIgnoreErrors(id))).Caller(httpsched.NewCaller(client))
	handler := eventrules.New().Handle(events.Handlers{
		scheduler.Event_SUBSCRIBED: events.HandlerFunc(func(_ context.Context, e *scheduler.Event) error {
			fmt.Println("subscribed")
			return id.Set(e.GetSubscribed().GetFrameworkID().GetValue())
		}),
		scheduler.Event_OFFERS: events.HandlerFunc(f.offers),
		scheduler.Event_UPDATE: controller.AckStatusUpdates(f.caller).HandleF(f.update),
	}.Otherwise(func(context.Context, *scheduler.Event) error { return nil }))
	info := &mesos.FrameworkInfo{User: "nobody", Name: "mesos-go"}
	err := controller.Run(ctx, info, f.caller, controller.WithEventHandler(handler),
		controller.WithFrameworkID(store.GetIgnoreErrors(id)))
	if len(f.final) != len(commands) {
		fmt.Fprintln(os.Stderr, "not all tasks are over:", f.final, err)
		os.Exit(1)
	}
	var lines []string
	for name, state := range f.final {
		lines = append(lines, name+" "+state)
	}
	sort.Sort(sort.Reverse(sort.StringSlice(lines)))
	for _, line := range lines {
		fmt.Println(line)
	}
}
