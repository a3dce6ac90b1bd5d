package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"stile/config"
	"stile/crawler"
	"stile/decide"
	"stile/geo"
	"stile/server"
)

func crawlers(args []string) int {
	if len(args) > 0 && args[0] == "update" {
		return updateCrawlers(args[1:])
	}
	f := flags("crawlers", "[-c FILE] | update [-c FILE] [--from FILE] [NAME...]", `Lists the crawlers that rules can name: by what each is told from its imitators, how
many address ranges are known of it, and of what day. 'stile crawlers update --help'
says how the lists are renewed; nothing is fetched without it.
`)
	file := f.String("c", "", "configuration `file`")
	if status, done := parse(f, args); done {
		return status
	}
	if f.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "stile: crawlers %s: want update, or nothing\n", f.Arg(0))
		return 2
	}
	cfg, _, ok := load(*file)
	if !ok {
		return 1
	}
	now := time.Now()
	lists, err := crawler.Load(crawler.Dir(cfg.State.Dir), cfg.Crawler.MaxAge, now)
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tVERIFIED BY\tRANGES\tOF\tAGE\tLIST\tWHO")
	for i := range crawler.Known {
		k := &crawler.Known[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", k.Name, lists.VerifiedBy(crawler.ID(i+1)), ofList(lists, crawler.ID(i+1), cfg.Crawler.MaxAge, now), k.Owner)
	}
	if flushErr := w.Flush(); flushErr != nil {
		return fail(flushErr)
	}
	if len(lists.Stale()) > 0 {
		fmt.Printf("\n! older than %d days: %s\n", days(cfg.Crawler.MaxAge), ofOld)
	}
	if err != nil {
		return fail(err)
	}
	return 0
}

// ofOld is what there is to know of lists that are old.
const ofOld = "a crawler whose addresses have changed since counts as unknown, unless DNS knows it. `stile crawlers update` renews them"

// sayOldLists says in a check which lists of crawlers are old, or cannot be read, where the
// rules use them. Neither is a fault of the configuration: the daemon goes on with what it has.
func sayOldLists(cfg *config.Config, now time.Time) {
	if !cfg.UsesCrawler() {
		return
	}
	lists, err := crawler.Load(crawler.Dir(cfg.State.Dir), cfg.Crawler.MaxAge, now)
	if stale := lists.Stale(); len(stale) > 0 {
		fmt.Printf("lists of addresses older than %d days (%s): %s\n", days(cfg.Crawler.MaxAge), strings.Join(stale, ", "), ofOld)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stile:", err)
	}
}

// ofList is the columns about a crawler's list.
func ofList(lists *crawler.Lists, id crawler.ID, maxAge time.Duration, now time.Time) string {
	list, from := lists.Of(id)
	if list == nil {
		return "-\t-\t-\t-"
	}
	mark := ""
	age := list.Age(now)
	if age > maxAge {
		mark = " !"
	}
	return fmt.Sprintf("%d\t%s\t%dd%s\t%s", len(list.Nets), list.Date, days(age), mark, from)
}

func days(d time.Duration) int { return int(d / (24 * time.Hour)) }

func updateCrawlers(args []string) int {
	f := flags("crawlers update", "[-c FILE] [--from FILE] [NAME...]", `Reads the address ranges of crawlers from where their owners publish them, of all or
of those that are named, and keeps them in [state] dir. A list that is empty, not whole,
or no list at all changes nothing. The daemon reads them at a reload, and twice a day.
It goes straight to the Internet (no proxy is used): elsewhere, bring the file and
say --from.
`)
	file := f.String("c", "", "configuration `file`")
	from := f.String("from", "", "read the list of one crawler from this `file` instead")
	if status, done := parse(f, args); done {
		return status
	}
	cfg, _, ok := load(*file)
	if !ok {
		return 1
	}
	ids, ok := chosen(f, cfg)
	if !ok {
		return 2
	}
	if *from != "" && f.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "stile: --from FILE is the list of one crawler: name it")
		return 2
	}
	now := time.Now()
	dir := crawler.Dir(cfg.State.Dir)
	old, err := crawler.Load(dir, cfg.Crawler.MaxAge, now)
	if err != nil {
		fmt.Fprintln(os.Stderr, "stile:", err) // and made anew, perhaps
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	status := 0
	for _, id := range ids {
		list, err := newList(ctx, cfg, id, *from, now)
		if err == nil {
			err = crawler.WriteList(dir, list)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "stile: %s: %v; the list stays as it was\n", id.Name(), err)
			status = 1
			continue
		}
		before, _ := old.Of(id)
		added, gone := list.Differs(before)
		fmt.Printf("%s: %d ranges: %d new, %d gone\n", id.Name(), len(list.Nets), added, gone)
	}
	return status
}

// chosen are the crawlers that are named, or all that have a list.
func chosen(f *flag.FlagSet, cfg *config.Config) (ids []crawler.ID, ok bool) {
	for _, name := range f.Args() {
		id := crawler.Find(name)
		if id == 0 {
			fmt.Fprintf(os.Stderr, "stile: there is no crawler %q; there are %s\n", name, strings.Join(crawler.Names(), ", "))
			return nil, false
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		return ids, true
	}
	for i := range crawler.Known {
		if k := &crawler.Known[i]; k.URLs != nil || cfg.Crawler.URLs[k.Name] != nil {
			ids = append(ids, crawler.ID(i+1))
		}
	}
	return ids, true
}

func newList(ctx context.Context, cfg *config.Config, id crawler.ID, file string, now time.Time) (*crawler.List, error) {
	if file == "" {
		return crawler.Fetch(ctx, id, cfg.Crawler.URLs[id.Name()], now)
	}
	return crawler.FromFile(id, file, now)
}

// assumed is what an explanation takes for known about who asks, and where from.
type assumed struct {
	crawler, country string
	asn              uint
}

func (a *assumed) flags(f *flag.FlagSet) {
	f.StringVar(&a.crawler, "crawler", "", "what is known of the caller: verified:`NAME`, spoofed, unknown or pending (without: what the lists say; DNS is not asked)")
	f.UintVar(&a.asn, "asn", 0, "`number` of the caller's autonomous system (without: as [geo] file says)")
	f.StringVar(&a.country, "country", "", "`code` of the caller's country, such as DE (likewise)")
}

// tell puts it into the facts of a request, and lets the rest be looked up in the lists
// and files that are here.
func (a *assumed) tell(cfg *config.Config, r *decide.Request) error {
	if a.crawler != "" {
		names := crawler.Names()
		for i := range cfg.Bots {
			if name := cfg.Bots[i].Name; a.crawler == name || a.crawler == "verified:"+name {
				r.Bot = name
			}
			names = append(names, cfg.Bots[i].Name)
		}
		c, ok := crawler.Parse(a.crawler)
		if r.Bot == "" && (!ok || c.State == crawler.None) {
			return fmt.Errorf("--crawler %q: want verified:NAME, spoofed, unknown or pending; the names are %s", a.crawler, strings.Join(names, ", "))
		}
		r.Crawler = c
	}
	if a.asn > 1<<32-1 {
		return fmt.Errorf("--asn %d: want the number of an autonomous system", a.asn)
	}
	r.Place.ASN = uint32(a.asn)
	if a.country != "" {
		c, ok := geo.ParseCountry(a.country)
		if !ok {
			return fmt.Errorf("--country %q: want the two letters of ISO 3166, such as DE", a.country)
		}
		r.Place.Country = c
	}
	here := &looks{}
	var err error
	if here.lists, err = crawler.Load(crawler.Dir(cfg.State.Dir), cfg.Crawler.MaxAge, time.Now()); err != nil {
		printStep("2 crawler", err.Error())
	}
	if r.Place == (geo.Place{}) {
		if here.places, err = server.Places(cfg); err != nil {
			printStep("2 place", err.Error())
		}
	}
	r.Look = here
	return nil
}

// looks is what can be known without the daemon.
type looks struct {
	lists  *crawler.Lists
	places *geo.DB // nil: none
}

func (l *looks) Crawler(agent string, a netip.Addr, _ int64) crawler.Claim {
	return l.lists.Claim(agent, a)
}

func (l *looks) Place(a netip.Addr) geo.Place {
	if l.places == nil {
		return geo.Place{}
	}
	return l.places.Place(a)
}
