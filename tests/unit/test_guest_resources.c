/* SPDX-License-Identifier: Apache-2.0 */
#include "guest_json.h"

#include "guest/resources.h"

static char *written(const char *text)
{
	struct json *j = parse(text);
	struct resources res;
	struct buf buf = BUF_INIT(1 << 20);
	cleanup_err cchv_error *err = NULL;

	if (resources_parse(j, 0, &res, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", text, cchv_error_message(err));
	for (size_t i = 0; i < res.count; i++)
		buf_printf(&buf, "%s%s=%s%s", i ? "; " : "", res.writes[i].file, res.writes[i].value,
		           res.writes[i].optional ? "?" : "");
	resources_free(&res);
	json_free(j);
	return buf_take_string(&buf);
}

#define WRITES(json, expected)               \
	do {                                 \
		char *text_ = written(json); \
		CHECK_STR(text_, expected);  \
		free(text_);                 \
	} while (0)

static void fails(const char *text, int code, const char *part)
{
	struct json *j = parse(text);
	cleanup_err cchv_error *err = NULL;
	struct resources res;

	CHECK_INT(resources_parse(j, 0, &res, &err), code);
	CHECK_CONTAINS(cchv_error_message(err), part);
	json_free(j);
}

TEST(memory)
{
	WRITES("{}", "");
	WRITES("{'memory':{'limit':268435456}}", "memory.max=268435456");
	WRITES("{'memory':{'limit':-1}}", "memory.max=max");
	WRITES("{'memory':{'limit':0}}", "");
	WRITES("{'memory':{'limit':100,'swap':150,'reservation':50}}",
	       "memory.swap.max=50?; memory.max=100; memory.low=50");
	WRITES("{'memory':{'limit':100,'swap':100}}", "memory.swap.max=0?; memory.max=100");
	WRITES("{'memory':{'limit':100,'swap':-1}}", "memory.swap.max=max?; memory.max=100");
	fails("{'memory':{'limit':100,'swap':50}}", CCHV_ERR_INVALID, "linux.resources.memory.swap");
	fails("{'memory':{'swap':50}}", CCHV_ERR_INVALID, "linux.resources.memory.swap");
	fails("{'memory':{'limit':'1'}}", CCHV_ERR_INVALID, "linux.resources.memory.limit: not a number");
	fails("{'memory':{'limit':-2}}", CCHV_ERR_INVALID, "linux.resources.memory.limit");
	fails("{'memory':{'disableOOMKiller':true}}", CCHV_ERR_UNSUPPORTED,
	      "linux.resources.memory.disableOOMKiller");
	fails("{'memory':[]}", CCHV_ERR_INVALID, "linux.resources.memory: not an object");
}

TEST(memory_members_without_effect_are_named)
{
	struct json *j = parse("{'memory':{'kernel':1,'kernelTCP':-1,'swappiness':5,'useHierarchy':false,"
	                       "'disableOOMKiller':false,'checkBeforeUpdate':true}}");
	struct resources res;

	CHECK_INT(resources_parse(j, 0, &res, NULL), 0);
	CHECK_INT(res.count, 0);
	CHECK_INT(res.ignored.count, 4);
	CHECK(words_has(&res.ignored, "linux.resources.memory.kernel"));
	CHECK(words_has(&res.ignored, "linux.resources.memory.kernelTCP"));
	CHECK(words_has(&res.ignored, "linux.resources.memory.swappiness"));
	CHECK(words_has(&res.ignored, "linux.resources.memory.useHierarchy"));
	CHECK_INT(res.check_before_update, 1);
	resources_free(&res);
	json_free(j);
}

TEST(cpu)
{
	WRITES("{'cpu':{'shares':1024}}", "cpu.weight=39");
	WRITES("{'cpu':{'shares':2}}", "cpu.weight=1");
	WRITES("{'cpu':{'shares':262144}}", "cpu.weight=10000");
	WRITES("{'cpu':{'shares':0}}", "");
	WRITES("{'cpu':{'quota':25000,'period':100000}}", "cpu.max=25000 100000");
	WRITES("{'cpu':{'quota':25000}}", "cpu.max=25000 100000");
	WRITES("{'cpu':{'period':50000}}", "cpu.max=max 50000");
	WRITES("{'cpu':{'quota':-1}}", "cpu.max=max 100000");
	WRITES("{'cpu':{'quota':0}}", "");
	WRITES("{'cpu':{'quota':20000,'burst':10000}}", "cpu.max=20000 100000; cpu.max.burst=10000");
	WRITES("{'cpu':{'cpus':'0-1,3','mems':'0','idle':1}}",
	       "cpuset.cpus=0-1,3; cpuset.mems=0; cpu.idle=1");
	fails("{'cpu':{'period':1}}", CCHV_ERR_INVALID, "linux.resources.cpu.period");
	fails("{'cpu':{'quota':10}}", CCHV_ERR_INVALID, "linux.resources.cpu.quota");
	fails("{'cpu':{'quota':20000,'burst':20001}}", CCHV_ERR_INVALID, "linux.resources.cpu.burst");
	fails("{'cpu':{'cpus':'a'}}", CCHV_ERR_INVALID, "linux.resources.cpu.cpus");
	fails("{'cpu':{'idle':2}}", CCHV_ERR_INVALID, "linux.resources.cpu.idle");
	fails("{'cpu':{'realtimeRuntime':1}}", CCHV_ERR_UNSUPPORTED, "linux.resources.cpu.realtimeRuntime");
	fails("{'cpu':{'realtimePeriod':1}}", CCHV_ERR_UNSUPPORTED, "linux.resources.cpu.realtimePeriod");
}

TEST(pids)
{
	WRITES("{'pids':{'limit':64}}", "pids.max=64");
	WRITES("{'pids':{'limit':0}}", "pids.max=0");
	WRITES("{'pids':{'limit':-1}}", "pids.max=max");
	fails("{'pids':{'limit':1e300}}", CCHV_ERR_INVALID, "linux.resources.pids.limit");
}

TEST(block_io)
{
	WRITES("{'blockIO':{'weight':10}}", "io.weight=1?");
	WRITES("{'blockIO':{'weight':1000,'weightDevice':[{'major':8,'minor':16,'weight':500}]}}",
	       "io.weight=10000?; io.weight=8:16 4950?");
	WRITES("{'blockIO':{'throttleReadBpsDevice':[{'major':8,'minor':0,'rate':600}],"
	       "'throttleWriteBpsDevice':[{'major':8,'minor':0,'rate':0}],"
	       "'throttleReadIOPSDevice':[{'major':8,'minor':0,'rate':1}],"
	       "'throttleWriteIOPSDevice':[{'major':8,'minor':0,'rate':2}]}}",
	       "io.max=8:0 rbps=600; io.max=8:0 wbps=max; io.max=8:0 riops=1; io.max=8:0 wiops=2");
	fails("{'blockIO':{'throttleReadBpsDevice':[{'minor':0,'rate':1}]}}", CCHV_ERR_INVALID,
	      "linux.resources.blockIO.throttleReadBpsDevice[0].major: required");
	fails("{'blockIO':{'weightDevice':[null]}}", CCHV_ERR_INVALID,
	      "linux.resources.blockIO.weightDevice[0]: not an object");
}

TEST(leaf_weights_are_named_and_written_nowhere)
{
	struct json *j = parse("{'blockIO':{'leafWeight':10,'weightDevice':[{'major':8,'minor':16,'weight':500},"
	                       "{'major':8,'minor':32,'leafWeight':500}]}}");
	struct resources res;

	CHECK_INT(resources_parse(j, 0, &res, NULL), 0);
	CHECK_INT(res.count, 1);
	CHECK_STR(res.writes[0].value, "8:16 4950");
	CHECK_INT(res.ignored.count, 2);
	CHECK(words_has(&res.ignored, "linux.resources.blockIO.leafWeight"));
	CHECK(words_has(&res.ignored, "linux.resources.blockIO.weightDevice[1].leafWeight"));
	resources_free(&res);
	json_free(j);
	fails("{'blockIO':{'leafWeight':1001}}", CCHV_ERR_INVALID, "linux.resources.blockIO.leafWeight");
	fails("{'blockIO':{'leafWeight':'1'}}", CCHV_ERR_INVALID, "linux.resources.blockIO.leafWeight");
}

TEST(the_rest)
{
	WRITES("{'hugepageLimits':[{'pageSize':'2MB','limit':4194304}]}",
	       "hugetlb.2MB.max=4194304; hugetlb.2MB.rsvd.max=4194304?");
	fails("{'hugepageLimits':[{'pageSize':'../x','limit':1}]}", CCHV_ERR_INVALID, "pageSize");
	WRITES("{'rdma':{'mlx5_1':{'hcaHandles':3,'hcaObjects':10}}}",
	       "rdma.max=mlx5_1 hca_handle=3; rdma.max=mlx5_1 hca_object=10");
	fails("{'rdma':{'mlx5_1':{}}}", CCHV_ERR_INVALID, "linux.resources.rdma.mlx5_1");
	WRITES("{'unified':{'io.max':'259:0 rbps=1\\n253:0 rbps=2','memory.high':'5'}}",
	       "io.max=259:0 rbps=1; io.max=253:0 rbps=2; memory.high=5");
	fails("{'unified':{'../x.y':'1'}}", CCHV_ERR_INVALID, "linux.resources.unified");
	fails("{'unified':{'cgroup.procs':'1'}}", CCHV_ERR_INVALID, "linux.resources.unified.cgroup.procs");
	fails("{'network':{'classID':5}}", CCHV_ERR_UNSUPPORTED, "linux.resources.network.classID");
	fails("{'network':{'priorities':[{'name':'eth0','priority':1}]}}", CCHV_ERR_UNSUPPORTED,
	      "linux.resources.network.priorities");
}

TEST(update_leaves_devices_alone)
{
	struct json *j = parse("{'devices':[]}");
	struct resources res;

	CHECK_INT(resources_parse(j, 0, &res, NULL), 0);
	CHECK_INT(res.has_devices, 1);
	CHECK_INT(res.ignored.count, 0);
	resources_free(&res);
	CHECK_INT(resources_parse(j, 1, &res, NULL), 0);
	CHECK(words_has(&res.ignored, "linux.resources.devices"));
	resources_free(&res);
	json_free(j);
}
