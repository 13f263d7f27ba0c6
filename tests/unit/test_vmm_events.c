/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/events.h"

#include "test.h"

static char seen[4096];

static void on_event(const struct vmm_event *event, void *user_data)
{
	const char *id = json_as_string(json_get(event->properties, "id"));

	CHECK(user_data == seen);
	snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%s/%s%s%s ", event->source, event->event,
	         id ? ":" : "", id ? id : "");
}

static void feed(struct vmm_event_parser *p, const char *text)
{
	CHECK_INT(vmm_events_feed(p, text, strlen(text), on_event, seen), 0);
}

#define EVENT(source, name, properties) \
	"{\n  \"timestamp\": {\n    \"secs\": 0,\n    \"nanos\": 41231234\n  },\n  \"source\": \"" source \
	"\",\n  \"event\": \"" name "\",\n  \"properties\": " properties "\n}\n\n"

static const char stream[] = EVENT("vm", "booting", "null") EVENT("vm", "booted", "{}")
	EVENT("virtio-device", "activated", "{\n    \"id\": \"vsock\"\n  }");

TEST(whole_and_in_pieces)
{
	for (size_t piece = 1; piece < 40; piece++) {
		struct vmm_event_parser p;

		seen[0] = '\0';
		vmm_events_init(&p);
		for (size_t at = 0; at < sizeof(stream) - 1; at += piece) {
			size_t n = sizeof(stream) - 1 - at < piece ? sizeof(stream) - 1 - at : piece;

			CHECK_INT(vmm_events_feed(&p, stream + at, n, on_event, seen), 0);
		}
		CHECK_STR(seen, "vm/booting vm/booted virtio-device/activated:vsock ");
		CHECK_INT(p.dropped, 0);
		vmm_events_free(&p);
	}
}

TEST(holes_cost_the_event_they_are_in)
{
	/* Cut the first event anywhere: the two behind it must come out. */
	size_t first = strlen(EVENT("vm", "booting", "null"));

	for (size_t cut = 1; cut < first - 2; cut++) {
		struct vmm_event_parser p;

		seen[0] = '\0';
		vmm_events_init(&p);
		CHECK_INT(vmm_events_feed(&p, stream, cut, on_event, seen), 0);
		/* What a full pipe lost was whole lines up to the next event's first. */
		feed(&p, "\n");
		feed(&p, stream + first);
		CHECK_STR(seen, "vm/booted virtio-device/activated:vsock ");
		vmm_events_free(&p);
	}
}

TEST(rubbish_is_dropped_and_counted)
{
	struct vmm_event_parser p;
	char *big = malloc(200001);

	memset(big, 'x', 200000);
	big[200000] = '\0';
	seen[0] = '\0';
	vmm_events_init(&p);
	feed(&p, "noise\n}\n{\n\"a\":\n}\n");
	feed(&p, big);
	feed(&p, "\n{\n");
	feed(&p, big);
	feed(&p, "\n}\n");
	feed(&p, "{\"source\":\"vm\",\"event\":\"one-line\"}\n");
	feed(&p, "{\"source\":3,\"event\":\"x\"}\n");
	feed(&p, EVENT("vm", "deleted", "null"));
	CHECK_STR(seen, "vm/one-line vm/deleted ");
	CHECK(p.dropped >= 4);
	CHECK(p.line.len <= VMM_EVENT_MAX && p.object.len <= VMM_EVENT_MAX);
	vmm_events_free(&p);
	free(big);
}

TEST(an_object_without_end_is_bounded)
{
	struct vmm_event_parser p;

	seen[0] = '\0';
	vmm_events_init(&p);
	feed(&p, "{\n");
	for (int i = 0; i < 20000; i++)
		feed(&p, "  \"key\": 1,\n");
	CHECK(p.object.len <= VMM_EVENT_MAX);
	feed(&p, stream);
	CHECK_STR(seen, "vm/booting vm/booted virtio-device/activated:vsock ");
	vmm_events_free(&p);
}
