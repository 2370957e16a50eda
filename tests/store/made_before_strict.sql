BEGIN TRANSACTION;
CREATE TABLE attempts (
	id INTEGER NOT NULL, 
	sweep_id INTEGER NOT NULL, 
	trial_id TEXT NOT NULL, 
	machine_id INTEGER NOT NULL, 
	environment_id INTEGER, 
	placement_id INTEGER NOT NULL, 
	repeat INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	outcome TEXT NOT NULL, 
	message TEXT NOT NULL, 
	exit_code INTEGER, 
	shares_host BOOLEAN NOT NULL, 
	run_dir TEXT NOT NULL, 
	started_at DATETIME NOT NULL, 
	duration_s DOUBLE, 
	deleted_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT attempts_outcome CHECK (outcome IN ('completed', 'failed', 'out_of_memory', 'timed_out', 'hung', 'interrupted', 'unsupported', 'invalid')), 
	CONSTRAINT attempts_once UNIQUE (trial_id, sweep_id, repeat, attempt), 
	FOREIGN KEY(sweep_id) REFERENCES sweeps (id), 
	FOREIGN KEY(trial_id) REFERENCES trials (id), 
	FOREIGN KEY(machine_id) REFERENCES machines (id), 
	FOREIGN KEY(environment_id) REFERENCES environments (id), 
	FOREIGN KEY(placement_id) REFERENCES placements (id)
);
INSERT INTO "attempts" VALUES(1,1,'201083b61d405a2c',1,1,1,1,1,'completed','',0,0,'x','2026-11-21 12:01:00.000000',9.5,NULL);
INSERT INTO "attempts" VALUES(2,1,'201083b61d405a2c',1,1,1,2,1,'completed','',0,0,'x','2026-11-21 12:02:00.000000',9.5,NULL);
INSERT INTO "attempts" VALUES(3,1,'e4aab462d5b4c7ff',1,1,1,1,1,'completed','',0,0,'x','2026-11-21 12:01:00.000000',9.5,NULL);
INSERT INTO "attempts" VALUES(4,1,'bd9881b6e1bf0614',1,NULL,1,1,1,'failed','it broke',0,0,'x','2026-11-21 12:01:00.000000',9.5,NULL);
INSERT INTO "attempts" VALUES(5,2,'58a592359e650ba2',1,1,1,1,1,'completed','',0,0,'x','2026-11-21 12:01:00.000000',9.5,NULL);
CREATE TABLE database_info (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "database_info" VALUES('schema','5');
INSERT INTO "database_info" VALUES('id','7ade49dcef7c4e2798f28b169765fe38');
CREATE TABLE environments (
	id INTEGER NOT NULL, 
	"key" TEXT NOT NULL, 
	software_key TEXT NOT NULL, 
	python TEXT NOT NULL, 
	tensorflow TEXT NOT NULL, 
	keras TEXT NOT NULL, 
	scalemark TEXT NOT NULL, 
	revision TEXT NOT NULL, 
	diff TEXT NOT NULL, 
	cuda TEXT NOT NULL, 
	cudnn TEXT NOT NULL, 
	description JSON NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE ("key")
);
INSERT INTO "environments" VALUES(1,'cdcc1c7435c028b6','4f388b6123329752','3.11.7','2.21.0','3.15.1','0.1.0','abc','','','','{"python":"3.11.7","kernel":"6.1","packages":{"tensorflow":"2.21.0","keras":"3.15.1","numpy":"2.4.6","scalemark":"0.1.0"},"commit":"abc","variables":{}}');
CREATE TABLE events (
	repeat_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	at_unix_us BIGINT NOT NULL, 
	attempt INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	detail TEXT NOT NULL, 
	PRIMARY KEY (repeat_id, number), 
	CONSTRAINT events_state CHECK (state IN ('pending', 'claimed', 'running', 'completed', 'failed', 'out_of_memory', 'timed_out', 'hung', 'interrupted', 'unsupported', 'invalid', 'skipped')), 
	FOREIGN KEY(repeat_id) REFERENCES repeats (id)
)
 WITHOUT ROWID

;
INSERT INTO "events" VALUES(1,1,1795262400000000,0,'pending','');
INSERT INTO "events" VALUES(1,2,1795262400000000,0,'claimed','');
INSERT INTO "events" VALUES(1,3,1795262400000000,1,'running','');
INSERT INTO "events" VALUES(1,4,1795262400000000,1,'completed','');
INSERT INTO "events" VALUES(2,1,1795262400000000,0,'pending','');
INSERT INTO "events" VALUES(2,2,1795262400000000,0,'claimed','');
INSERT INTO "events" VALUES(2,3,1795262400000000,1,'running','');
INSERT INTO "events" VALUES(2,4,1795262400000000,1,'completed','');
INSERT INTO "events" VALUES(3,1,1795262400000000,0,'pending','');
INSERT INTO "events" VALUES(3,2,1795262400000000,0,'claimed','');
INSERT INTO "events" VALUES(3,3,1795262400000000,1,'running','');
INSERT INTO "events" VALUES(3,4,1795262400000000,1,'completed','');
INSERT INTO "events" VALUES(4,1,1795262400000000,0,'pending','');
INSERT INTO "events" VALUES(4,2,1795262400000000,0,'claimed','');
INSERT INTO "events" VALUES(4,3,1795262400000000,1,'running','');
INSERT INTO "events" VALUES(4,4,1795262400000000,1,'failed','');
INSERT INTO "events" VALUES(5,1,1795262400000000,0,'pending','');
INSERT INTO "events" VALUES(5,2,1795262400000000,0,'claimed','');
INSERT INTO "events" VALUES(5,3,1795262400000000,1,'running','');
INSERT INTO "events" VALUES(5,4,1795262400000000,1,'completed','');
CREATE TABLE gpu_links (
	machine_id INTEGER NOT NULL, 
	first_uuid TEXT NOT NULL, 
	second_uuid TEXT NOT NULL, 
	num_nvlinks INTEGER NOT NULL, 
	pcie TEXT, 
	PRIMARY KEY (machine_id, first_uuid, second_uuid), 
	FOREIGN KEY(machine_id) REFERENCES machines (id)
);
CREATE TABLE gpus (
	machine_id INTEGER NOT NULL, 
	uuid TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	memory_bytes BIGINT, 
	pci_bus_id TEXT NOT NULL, 
	compute_capability TEXT NOT NULL, 
	power_limit_w DOUBLE, 
	numa_node INTEGER, 
	cores TEXT NOT NULL, 
	mig_parent TEXT, 
	mig_mode BOOLEAN NOT NULL, 
	PRIMARY KEY (machine_id, uuid), 
	FOREIGN KEY(machine_id) REFERENCES machines (id)
);
CREATE TABLE left_out (
	sweep_id INTEGER NOT NULL, 
	overrides TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	PRIMARY KEY (sweep_id, overrides), 
	FOREIGN KEY(sweep_id) REFERENCES sweeps (id)
);
INSERT INTO "left_out" VALUES(1,'xla=on','later');
INSERT INTO "left_out" VALUES(2,'xla=on','later');
CREATE TABLE machines (
	id INTEGER NOT NULL, 
	"key" TEXT NOT NULL, 
	host TEXT NOT NULL, 
	cpu TEXT NOT NULL, 
	num_cores INTEGER NOT NULL, 
	memory_bytes BIGINT NOT NULL, 
	num_gpus INTEGER NOT NULL, 
	gpu TEXT NOT NULL, 
	driver TEXT NOT NULL, 
	hardware_profile TEXT NOT NULL, 
	pool TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE ("key")
);
INSERT INTO "machines" VALUES(1,'83c067949c5ad727','testbox','Testium',2,8589934592,0,'','','','');
CREATE TABLE measurements (
	attempt_id INTEGER NOT NULL, 
	throughput DOUBLE NOT NULL, 
	throughput_low DOUBLE, 
	throughput_high DOUBLE, 
	median_step_s DOUBLE, 
	jitter_s DOUBLE, 
	p90_step_s DOUBLE, 
	num_steps INTEGER NOT NULL, 
	window_s DOUBLE NOT NULL, 
	num_warm_up_steps INTEGER NOT NULL, 
	steady BOOLEAN NOT NULL, 
	time_to_first_step_s DOUBLE, 
	trace_s DOUBLE, 
	first_step_s DOUBLE, 
	data_wait_share DOUBLE, 
	cpu_s DOUBLE, 
	cores_taken_by_others DOUBLE, 
	peak_host_memory_bytes BIGINT, 
	peak_device_memory_bytes BIGINT, 
	first_loss DOUBLE, 
	last_loss DOUBLE, 
	num_skipped_steps INTEGER NOT NULL, 
	last_loss_scale DOUBLE, 
	num_parameters BIGINT, 
	link_bytes_per_s DOUBLE, 
	item TEXT NOT NULL, 
	reported BOOLEAN NOT NULL, 
	mfu DOUBLE, 
	peak_flops_per_s DOUBLE, 
	variable_bytes BIGINT, 
	optimizer_state_bytes BIGINT, 
	op_placement_id INTEGER NOT NULL, 
	verdict TEXT, 
	verdict_reasons JSON, 
	gpu_telemetry JSON, 
	profile JSON, 
	replica_times JSON, 
	truth JSON, 
	metrics JSON, 
	PRIMARY KEY (attempt_id), 
	CONSTRAINT measurements_verdict CHECK (verdict IN ('valid', 'suspect', 'invalid')), 
	CONSTRAINT measurements_throughput CHECK (throughput >= 0 AND throughput < 1e300), 
	FOREIGN KEY(attempt_id) REFERENCES attempts (id), 
	FOREIGN KEY(op_placement_id) REFERENCES op_placements (id)
);
INSERT INTO "measurements" VALUES(1,10.0,9.5,10.5,0.1,0.01,0.11,2,0.2,1,1,6.0,1.0,2.0,0.0,3.0,0.0,5368709120,NULL,7.0,6.5,0,NULL,1000,NULL,'images',0,NULL,NULL,NULL,NULL,1,'valid','[]','[]','null','null','null','null');
INSERT INTO "measurements" VALUES(2,12.0,1.13999999999999985784e+01,1.26000000000000014213e+01,0.1,0.01,0.11,2,0.2,1,1,6.0,1.0,2.0,0.0,3.0,0.0,5368709120,NULL,7.0,6.5,0,NULL,1000,NULL,'images',0,NULL,NULL,NULL,NULL,1,'valid','[]','[]','null','null','null','null');
INSERT INTO "measurements" VALUES(3,18.0,1.70999999999999978688e+01,1.89000000000000021316e+01,0.1,0.01,0.11,2,0.2,1,1,6.0,1.0,2.0,0.0,3.0,0.0,5368709120,NULL,7.0,6.5,0,NULL,1000,NULL,'images',0,NULL,NULL,NULL,NULL,1,'valid','[]','[]','null','null','null','null');
INSERT INTO "measurements" VALUES(5,9.0,8.54999999999999893418e+00,9.45000000000000106581e+00,0.1,0.01,0.11,2,0.2,1,1,6.0,1.0,2.0,0.0,3.0,0.0,5368709120,NULL,7.0,6.5,0,NULL,1000,NULL,'images',0,NULL,NULL,NULL,NULL,1,'valid','[]','[]','null','null','null','null');
CREATE TABLE notes (
	note TEXT NOT NULL, 
	id INTEGER NOT NULL, 
	sweep_id INTEGER, 
	trial_id TEXT, 
	attempt_id INTEGER, 
	added_at DATETIME NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT notes_one_subject CHECK ((CASE WHEN sweep_id IS NULL THEN 0 ELSE 1 END) + (CASE WHEN trial_id IS NULL THEN 0 ELSE 1 END) + (CASE WHEN attempt_id IS NULL THEN 0 ELSE 1 END) = 1), 
	FOREIGN KEY(sweep_id) REFERENCES sweeps (id), 
	FOREIGN KEY(trial_id) REFERENCES trials (id), 
	FOREIGN KEY(attempt_id) REFERENCES attempts (id)
);
CREATE TABLE op_placements (
	id INTEGER NOT NULL, 
	"key" TEXT NOT NULL, 
	description JSON NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE ("key")
);
INSERT INTO "op_placements" VALUES(1,'ce7f0e07a9da1dde','{"update":{"ResourceApplyMomentum @ CPU:1":6}}');
CREATE TABLE orchestrators (
	id INTEGER NOT NULL, 
	sweep_id INTEGER NOT NULL, 
	machine_id INTEGER NOT NULL, 
	software_key TEXT NOT NULL, 
	shares_host BOOLEAN NOT NULL, 
	host TEXT NOT NULL, 
	boot_id TEXT NOT NULL, 
	pid_namespace TEXT NOT NULL, 
	pid INTEGER NOT NULL, 
	start_ticks BIGINT NOT NULL, 
	started_at DATETIME NOT NULL, 
	heartbeat_at DATETIME NOT NULL, 
	ended_at DATETIME, 
	note TEXT NOT NULL, 
	lease_s DOUBLE, 
	PRIMARY KEY (id), 
	FOREIGN KEY(sweep_id) REFERENCES sweeps (id), 
	FOREIGN KEY(machine_id) REFERENCES machines (id)
);
INSERT INTO "orchestrators" VALUES(1,1,1,'4f388b6123329752',0,'testbox','b','pid:[1]',4711,1,'2026-11-21 12:00:00.000000','2026-11-21 12:00:00.000000','2026-11-21 12:00:00.000000','',NULL);
INSERT INTO "orchestrators" VALUES(2,2,1,'4f388b6123329752',0,'testbox','b','pid:[1]',4711,1,'2026-11-21 12:00:00.000000','2026-11-21 12:00:00.000000','2026-11-21 12:00:00.000000','',NULL);
CREATE TABLE placements (
	id INTEGER NOT NULL, 
	"key" TEXT NOT NULL, 
	start TEXT NOT NULL, 
	devices TEXT NOT NULL, 
	visible_devices TEXT NOT NULL, 
	cores TEXT NOT NULL, 
	spare_core INTEGER, 
	shares_host BOOLEAN NOT NULL, 
	host_memory_bytes BIGINT, 
	hosts TEXT NOT NULL, 
	rank_start TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE ("key")
);
INSERT INTO "placements" VALUES(1,'95508718b20d802a','spawn','0','','',NULL,0,NULL,'','');
CREATE TABLE reference_results (
	id INTEGER NOT NULL, 
	"key" TEXT NOT NULL, 
	origin TEXT NOT NULL, 
	source TEXT NOT NULL, 
	citation TEXT NOT NULL, 
	hardware TEXT NOT NULL, 
	model TEXT NOT NULL, 
	batch_size INTEGER, 
	data TEXT NOT NULL, 
	variable_update TEXT NOT NULL, 
	all_reduce TEXT NOT NULL, 
	local_parameter_device TEXT NOT NULL, 
	precision TEXT NOT NULL, 
	num_gpus INTEGER NOT NULL, 
	throughput DOUBLE NOT NULL, 
	evidence TEXT NOT NULL, 
	note TEXT NOT NULL, 
	item TEXT NOT NULL, 
	hosts INTEGER, 
	axes TEXT NOT NULL, 
	compare TEXT NOT NULL, 
	repeat INTEGER NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT reference_results_num_gpus CHECK (num_gpus >= 1), 
	CONSTRAINT reference_results_throughput CHECK (throughput > 0), 
	UNIQUE ("key")
);
INSERT INTO "reference_results" VALUES(1,'e495ed36b9dc0d18','published','TensorFlow benchmarks page (2017)','TensorFlow, "Benchmarks" (performance guide; tests of May 2017 with TensorFlow b1e174e and tensorflow/benchmarks 9165a70), https://www.tensorflow.org/performance/benchmarks; its text is kept in tensorflow/tensorflow as tensorflow/docs_src/performance/benchmarks.md','NVIDIA DGX-1 8xP100-SXM2 NVLink','inception3',64,'synthetic','parameter_server','none','cpu','fp32',1,142.0,'checked against a second copy of the source','','images',NULL,'{}','',1);
INSERT INTO "reference_results" VALUES(2,'998d4943d01944f6','published','TensorFlow benchmarks page (2017)','TensorFlow, "Benchmarks" (performance guide; tests of May 2017 with TensorFlow b1e174e and tensorflow/benchmarks 9165a70), https://www.tensorflow.org/performance/benchmarks; its text is kept in tensorflow/tensorflow as tensorflow/docs_src/performance/benchmarks.md','NVIDIA DGX-1 8xP100-SXM2 NVLink','resnet50',64,'synthetic','parameter_server','none','cpu','fp32',1,219.0,'checked against a second copy of the source','','images',NULL,'{}','',1);
CREATE TABLE repeats (
	id INTEGER NOT NULL, 
	sweep_id INTEGER NOT NULL, 
	trial_id TEXT NOT NULL, 
	repeat INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	num_attempts INTEGER NOT NULL, 
	orchestrator_id INTEGER, 
	turn INTEGER, 
	started_at DATETIME, 
	run_dir TEXT, 
	placement JSON, 
	pid INTEGER, 
	start_ticks BIGINT, 
	PRIMARY KEY (id), 
	CONSTRAINT repeats_state CHECK (state IN ('pending', 'claimed', 'running', 'completed', 'failed', 'out_of_memory', 'timed_out', 'hung', 'interrupted', 'unsupported', 'invalid', 'skipped')), 
	CONSTRAINT repeats_once UNIQUE (sweep_id, trial_id, repeat), 
	FOREIGN KEY(sweep_id) REFERENCES sweeps (id), 
	FOREIGN KEY(trial_id) REFERENCES trials (id), 
	FOREIGN KEY(orchestrator_id) REFERENCES orchestrators (id)
);
INSERT INTO "repeats" VALUES(1,1,'201083b61d405a2c',1,'completed','',1,1,NULL,NULL,NULL,'null',NULL,NULL);
INSERT INTO "repeats" VALUES(2,1,'201083b61d405a2c',2,'completed','',1,1,NULL,NULL,NULL,'null',NULL,NULL);
INSERT INTO "repeats" VALUES(3,1,'e4aab462d5b4c7ff',1,'completed','',1,1,NULL,NULL,NULL,'null',NULL,NULL);
INSERT INTO "repeats" VALUES(4,1,'bd9881b6e1bf0614',1,'failed','',1,1,NULL,NULL,NULL,'null',NULL,NULL);
INSERT INTO "repeats" VALUES(5,2,'58a592359e650ba2',1,'completed','',1,2,NULL,NULL,NULL,'null',NULL,NULL);
CREATE TABLE step_arrays (
	attempt_id INTEGER NOT NULL, 
	first_step INTEGER NOT NULL, 
	num_steps INTEGER NOT NULL, 
	num_warm_up INTEGER NOT NULL, 
	time_unit_us BIGINT NOT NULL, 
	least_duration BIGINT NOT NULL, 
	least_loss DOUBLE, 
	loss_unit DOUBLE NOT NULL, 
	duration_over_least JSON NOT NULL, 
	data_wait JSON NOT NULL, 
	gap_before JSON NOT NULL, 
	loss_over_least JSON NOT NULL, 
	PRIMARY KEY (attempt_id), 
	FOREIGN KEY(attempt_id) REFERENCES attempts (id)
);
INSERT INTO "step_arrays" VALUES(1,0,1,1,10,10000,6.5,0.0001,'[10000,0,0]','[]','[0,0,0]','[5000,3000,0]');
INSERT INTO "step_arrays" VALUES(2,0,1,1,10,10000,6.5,0.0001,'[10000,0,0]','[]','[0,0,0]','[5000,3000,0]');
INSERT INTO "step_arrays" VALUES(3,0,1,1,10,10000,6.5,0.0001,'[10000,0,0]','[]','[0,0,0]','[5000,3000,0]');
INSERT INTO "step_arrays" VALUES(5,0,1,1,10,10000,6.5,0.0001,'[10000,0,0]','[]','[0,0,0]','[5000,3000,0]');
CREATE TABLE sweep_trials (
	sweep_id INTEGER NOT NULL, 
	trial_id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	PRIMARY KEY (sweep_id, trial_id), 
	FOREIGN KEY(sweep_id) REFERENCES sweeps (id), 
	FOREIGN KEY(trial_id) REFERENCES trials (id)
)
 WITHOUT ROWID

;
INSERT INTO "sweep_trials" VALUES(1,'201083b61d405a2c',0);
INSERT INTO "sweep_trials" VALUES(1,'bd9881b6e1bf0614',2);
INSERT INTO "sweep_trials" VALUES(1,'e4aab462d5b4c7ff',1);
INSERT INTO "sweep_trials" VALUES(2,'58a592359e650ba2',0);
CREATE TABLE sweeps (
	id INTEGER NOT NULL, 
	uid TEXT NOT NULL, 
	name TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	command TEXT NOT NULL, 
	started_at DATETIME NOT NULL, 
	finished_at DATETIME, 
	run_dir TEXT, 
	origin TEXT NOT NULL, 
	settings JSON, 
	PRIMARY KEY (id), 
	UNIQUE (uid), 
	UNIQUE (name)
);
INSERT INTO "sweeps" VALUES(1,'86b5610270f3983b','first','','sweep.py','2026-11-21 12:00:00.000000','2026-11-21 12:00:00.000000','/runs','',NULL);
INSERT INTO "sweeps" VALUES(2,'09b69bc762b913de','second','','sweep.py','2026-11-21 12:00:00.000000','2026-11-21 12:00:00.000000','/runs','',NULL);
CREATE TABLE tags (
	tag TEXT NOT NULL, 
	id INTEGER NOT NULL, 
	sweep_id INTEGER, 
	trial_id TEXT, 
	attempt_id INTEGER, 
	added_at DATETIME NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT tags_one_subject CHECK ((CASE WHEN sweep_id IS NULL THEN 0 ELSE 1 END) + (CASE WHEN trial_id IS NULL THEN 0 ELSE 1 END) + (CASE WHEN attempt_id IS NULL THEN 0 ELSE 1 END) = 1), 
	FOREIGN KEY(sweep_id) REFERENCES sweeps (id), 
	FOREIGN KEY(trial_id) REFERENCES trials (id), 
	FOREIGN KEY(attempt_id) REFERENCES attempts (id)
);
CREATE TABLE trials (
	id TEXT NOT NULL, 
	curve TEXT NOT NULL, 
	strategy TEXT NOT NULL, 
	spec TEXT NOT NULL, 
	engine TEXT DEFAULT 'tensorflow' NOT NULL, 
	model TEXT NOT NULL, 
	model_digest TEXT DEFAULT '', 
	num_gpus INTEGER NOT NULL, 
	hosts INTEGER DEFAULT 1 NOT NULL, 
	device_kind TEXT NOT NULL, 
	variable_update TEXT, 
	local_parameter_device TEXT, 
	all_reduce TEXT, 
	staged_vars BOOLEAN DEFAULT false, 
	gradient_repacking INTEGER DEFAULT 0, 
	compact_gradients BOOLEAN DEFAULT false, 
	precision TEXT, 
	loss_scale TEXT DEFAULT 'none', 
	xla TEXT DEFAULT 'off', 
	recompute BOOLEAN DEFAULT false, 
	optimizer TEXT, 
	learning_rate DOUBLE, 
	momentum DOUBLE, 
	learning_rate_warm_up INTEGER DEFAULT 0, 
	weight_decay DOUBLE, 
	data TEXT, 
	data_dir TEXT DEFAULT '', 
	distortions BOOLEAN, 
	data_format TEXT DEFAULT 'NHWC', 
	image_px INTEGER, 
	seq_len INTEGER DEFAULT 0, 
	num_classes INTEGER, 
	batch_size INTEGER, 
	gradient_accumulation INTEGER DEFAULT 1, 
	scaling TEXT DEFAULT 'weak', 
	steps_per_execution INTEGER DEFAULT 1, 
	gpu_thread_mode TEXT DEFAULT 'global', 
	gpu_thread_count INTEGER DEFAULT 0, 
	num_inter_threads INTEGER DEFAULT 0, 
	num_intra_threads INTEGER DEFAULT 0, 
	onednn TEXT DEFAULT 'auto', 
	cudnn_autotune TEXT DEFAULT 'auto', 
	winograd_nonfused TEXT DEFAULT 'auto', 
	batchnorm_persistent TEXT DEFAULT 'auto', 
	cache BOOLEAN DEFAULT true, 
	data_threads INTEGER DEFAULT 0, 
	prefetch INTEGER DEFAULT 2, 
	visibility TEXT DEFAULT 'masked', 
	min_warm_up_steps INTEGER NOT NULL, 
	min_warm_up_s DOUBLE DEFAULT (0.0), 
	num_steps INTEGER, 
	min_window_s DOUBLE DEFAULT (0.0), 
	profile BOOLEAN DEFAULT false, 
	replica_times BOOLEAN DEFAULT false, 
	injected TEXT DEFAULT '', 
	seed INTEGER NOT NULL, 
	command TEXT DEFAULT '' NOT NULL, 
	shell BOOLEAN DEFAULT false NOT NULL, 
	read TEXT DEFAULT '' NOT NULL, 
	item TEXT DEFAULT '' NOT NULL, 
	items_per_step TEXT DEFAULT '' NOT NULL, 
	per_gpu BOOLEAN DEFAULT false NOT NULL, 
	compare TEXT DEFAULT '' NOT NULL, "axes.flag" TEXT, "axes.zero" BIGINT, 
	PRIMARY KEY (id)
);
INSERT INTO "trials" VALUES('201083b61d405a2c','60760df4cc5ec713','replicated_none','{"all_reduce":"none","batch_size":2,"data":"synthetic","device_kind":"cpu_device","distortions":false,"image_px":32,"learning_rate":0.01,"local_parameter_device":"gpu","min_warm_up_steps":2,"model":"trivial","momentum":0.9,"num_classes":10,"num_gpus":1,"num_steps":4,"optimizer":"momentum","precision":"fp32","seed":1,"variable_update":"replicated","weight_decay":4e-05}','tensorflow','trivial','',1,1,'cpu_device','replicated','gpu','none',0,0,0,'fp32','none','off',0,'momentum',0.01,0.9,0,4.0e-05,'synthetic','',0,'NHWC',32,0,10,2,1,'weak',1,'global',0,0,0,'auto','auto','auto','auto',1,0,2,'masked',2,0.0,4,0.0,0,0,'',1,'',0,'','','',0,'',NULL,NULL);
INSERT INTO "trials" VALUES('e4aab462d5b4c7ff','60760df4cc5ec713','replicated_none','{"all_reduce":"none","batch_size":2,"data":"synthetic","device_kind":"cpu_device","distortions":false,"image_px":32,"learning_rate":0.01,"local_parameter_device":"gpu","min_warm_up_steps":2,"model":"trivial","momentum":0.9,"num_classes":10,"num_gpus":2,"num_steps":4,"optimizer":"momentum","precision":"fp32","seed":1,"variable_update":"replicated","weight_decay":4e-05}','tensorflow','trivial','',2,1,'cpu_device','replicated','gpu','none',0,0,0,'fp32','none','off',0,'momentum',0.01,0.9,0,4.0e-05,'synthetic','',0,'NHWC',32,0,10,2,1,'weak',1,'global',0,0,0,'auto','auto','auto','auto',1,0,2,'masked',2,0.0,4,0.0,0,0,'',1,'',0,'','','',0,'',NULL,NULL);
INSERT INTO "trials" VALUES('bd9881b6e1bf0614','60760df4cc5ec713','replicated_none','{"all_reduce":"none","batch_size":2,"data":"synthetic","device_kind":"cpu_device","distortions":false,"image_px":32,"learning_rate":0.01,"local_parameter_device":"gpu","min_warm_up_steps":2,"model":"trivial","momentum":0.9,"num_classes":10,"num_gpus":4,"num_steps":4,"optimizer":"momentum","precision":"fp32","seed":1,"variable_update":"replicated","weight_decay":4e-05}','tensorflow','trivial','',4,1,'cpu_device','replicated','gpu','none',0,0,0,'fp32','none','off',0,'momentum',0.01,0.9,0,4.0e-05,'synthetic','',0,'NHWC',32,0,10,2,1,'weak',1,'global',0,0,0,'auto','auto','auto','auto',1,0,2,'masked',2,0.0,4,0.0,0,0,'',1,'',0,'','','',0,'',NULL,NULL);
INSERT INTO "trials" VALUES('58a592359e650ba2','170b9397483c29e1','replicated_none','{"all_reduce":"none","batch_size":2,"data":"synthetic","device_kind":"cpu_device","distortions":false,"free":{"flag":"true","zero":2},"image_px":32,"learning_rate":0.01,"local_parameter_device":"gpu","min_warm_up_steps":2,"model":"trivial","momentum":0.9,"num_classes":10,"num_gpus":1,"num_steps":4,"optimizer":"momentum","precision":"fp32","seed":1,"variable_update":"replicated","weight_decay":4e-05}','tensorflow','trivial','',1,1,'cpu_device','replicated','gpu','none',0,0,0,'fp32','none','off',0,'momentum',0.01,0.9,0,4.0e-05,'synthetic','',0,'NHWC',32,0,10,2,1,'weak',1,'global',0,0,0,'auto','auto','auto','auto',1,0,2,'masked',2,0.0,4,0.0,0,0,'',1,'',0,'','','',0,'','true',2);
CREATE INDEX ix_environments_software_key ON environments (software_key);
CREATE INDEX ix_trials_curve ON trials (curve, num_gpus);
CREATE INDEX ix_trials_model ON trials (model, num_gpus);
CREATE INDEX ix_orchestrators_sweep_id ON orchestrators (sweep_id);
CREATE INDEX ix_attempts_sweep_id ON attempts (sweep_id);
CREATE INDEX ix_repeats_in_flight ON repeats (trial_id) WHERE state IN ('claimed', 'running');
CREATE INDEX ix_repeats_waiting ON repeats (sweep_id, turn) WHERE state = 'pending' AND orchestrator_id IS NULL;
CREATE INDEX ix_tags_trial_id ON tags (trial_id);
CREATE INDEX ix_tags_attempt_id ON tags (attempt_id);
CREATE INDEX ix_tags_sweep_id ON tags (sweep_id);
CREATE INDEX ix_notes_trial_id ON notes (trial_id);
CREATE INDEX ix_notes_attempt_id ON notes (attempt_id);
CREATE INDEX ix_notes_sweep_id ON notes (sweep_id);
CREATE VIEW step_samples AS 
SELECT attempt_id, step,
       CASE WHEN place < num_warm_up THEN 'warm_up' ELSE 'measure' END AS phase,
       (sum(gap_us + duration_us) OVER (PARTITION BY attempt_id ORDER BY place) - duration_us)
           / 1e6 AS start_s,
       duration_us / 1e6 AS duration_s, wait_us / 1e6 AS data_wait_s, loss, num_steps
FROM (
  SELECT arrays.attempt_id, each.key AS place,
         arrays.first_step + each.key * arrays.num_steps AS step, arrays.num_warm_up,
         arrays.num_steps,
         (arrays.least_duration + each.value) * arrays.time_unit_us AS duration_us,
         coalesce(json_extract(arrays.data_wait, '$[' || each.key || ']'), 0)
             * arrays.time_unit_us AS wait_us,
         json_extract(arrays.gap_before, '$[' || each.key || ']') * arrays.time_unit_us AS gap_us,
         arrays.least_loss
             + json_extract(arrays.loss_over_least, '$[' || each.key || ']') * arrays.loss_unit
             AS loss
  FROM step_arrays AS arrays
  JOIN attempts ON attempts.id = arrays.attempt_id AND attempts.deleted_at IS NULL
  CROSS JOIN json_each(arrays.duration_over_least) AS each
);
CREATE VIEW state_changes AS 
SELECT events.repeat_id, sweeps.name AS sweep, repeats.trial_id, repeats.repeat, events.number,
       events.attempt, events.state, events.detail, strftime('%Y-%m-%d %H:%M:%S', events.at_unix_us / 1000000, 'unixepoch') || printf('.%06d', events.at_unix_us % 1000000) AS at
FROM events
JOIN repeats ON repeats.id = events.repeat_id
JOIN sweeps ON sweeps.id = repeats.sweep_id;
CREATE VIEW latest_attempts AS 
SELECT attempts.id AS attempt_id, sweeps.name AS sweep, trials.id AS trial_id, machines.host,
       attempts.repeat, attempts.attempt, attempts.outcome, attempts.message, attempts.exit_code,
       attempts.started_at, attempts.duration_s, measurements.item,
       CASE WHEN trials.device_kind <> 'simulated_gpu' THEN measurements.throughput END AS throughput,
       measurements.verdict, CASE WHEN substr(attempts.run_dir, 1, 1) = '/' THEN attempts.run_dir
            ELSE sweeps.run_dir || '/' || attempts.run_dir END AS run_dir,
       CASE WHEN trials.device_kind = 'simulated_gpu' THEN measurements.throughput END AS simulated_throughput,
       trials."strategy", trials."engine", trials."model", trials."model_digest", trials."num_gpus", trials."hosts", trials."device_kind", trials."variable_update", trials."local_parameter_device", trials."all_reduce", trials."staged_vars", trials."gradient_repacking", trials."compact_gradients", trials."precision", trials."loss_scale", trials."xla", trials."recompute", trials."optimizer", trials."learning_rate", trials."momentum", trials."learning_rate_warm_up", trials."weight_decay", trials."data", trials."data_dir", trials."distortions", trials."data_format", trials."image_px", trials."seq_len", trials."num_classes", trials."batch_size", trials."gradient_accumulation", trials."scaling", trials."steps_per_execution", trials."gpu_thread_mode", trials."gpu_thread_count", trials."num_inter_threads", trials."num_intra_threads", trials."onednn", trials."cudnn_autotune", trials."winograd_nonfused", trials."batchnorm_persistent", trials."cache", trials."data_threads", trials."prefetch", trials."visibility", trials."min_warm_up_steps", trials."min_warm_up_s", trials."num_steps", trials."min_window_s", trials."profile", trials."replica_times", trials."injected", trials."seed", trials."command", trials."shell", trials."read", trials."items_per_step", trials."per_gpu", trials."compare", trials."axes.flag", trials."axes.zero"
FROM attempts
JOIN trials ON trials.id = attempts.trial_id
JOIN sweeps ON sweeps.id = attempts.sweep_id
JOIN machines ON machines.id = attempts.machine_id
LEFT JOIN measurements ON measurements.attempt_id = attempts.id
WHERE attempts.deleted_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM attempts AS later
    WHERE later.trial_id = attempts.trial_id AND later.sweep_id = attempts.sweep_id
          AND later.repeat = attempts.repeat AND later.attempt > attempts.attempt
          AND later.deleted_at IS NULL
);
CREATE VIEW failures AS 
SELECT attempts.id AS attempt_id, sweeps.name AS sweep, trials.id AS trial_id, machines.host,
       attempts.repeat, attempts.attempt, attempts.outcome, attempts.message, attempts.exit_code,
       attempts.started_at, attempts.duration_s, CASE WHEN substr(attempts.run_dir, 1, 1) = '/' THEN attempts.run_dir
            ELSE sweeps.run_dir || '/' || attempts.run_dir END AS run_dir, trials."strategy", trials."engine", trials."model", trials."model_digest", trials."num_gpus", trials."hosts", trials."device_kind", trials."variable_update", trials."local_parameter_device", trials."all_reduce", trials."staged_vars", trials."gradient_repacking", trials."compact_gradients", trials."precision", trials."loss_scale", trials."xla", trials."recompute", trials."optimizer", trials."learning_rate", trials."momentum", trials."learning_rate_warm_up", trials."weight_decay", trials."data", trials."data_dir", trials."distortions", trials."data_format", trials."image_px", trials."seq_len", trials."num_classes", trials."batch_size", trials."gradient_accumulation", trials."scaling", trials."steps_per_execution", trials."gpu_thread_mode", trials."gpu_thread_count", trials."num_inter_threads", trials."num_intra_threads", trials."onednn", trials."cudnn_autotune", trials."winograd_nonfused", trials."batchnorm_persistent", trials."cache", trials."data_threads", trials."prefetch", trials."visibility", trials."min_warm_up_steps", trials."min_warm_up_s", trials."num_steps", trials."min_window_s", trials."profile", trials."replica_times", trials."injected", trials."seed", trials."command", trials."shell", trials."read", trials."item", trials."items_per_step", trials."per_gpu", trials."compare", trials."axes.flag", trials."axes.zero"
FROM attempts
JOIN trials ON trials.id = attempts.trial_id
JOIN sweeps ON sweeps.id = attempts.sweep_id
JOIN machines ON machines.id = attempts.machine_id
WHERE attempts.outcome <> 'completed' AND attempts.deleted_at IS NULL;
CREATE VIEW throughput AS 
SELECT attempts.id AS attempt_id, sweeps.name AS sweep, trials.id AS trial_id, machines.host,
       machines.gpu, environments.software_key, attempts.shares_host, attempts.repeat,
       measurements.item, measurements.throughput, measurements.throughput_low,
       measurements.throughput_high, measurements.median_step_s, measurements.p90_step_s,
       measurements.jitter_s, measurements.data_wait_share, measurements.cpu_s,
       measurements.peak_host_memory_bytes, measurements.peak_device_memory_bytes,
       measurements.mfu, measurements.peak_flops_per_s, measurements.variable_bytes,
       measurements.optimizer_state_bytes, measurements.verdict, attempts.started_at,
       trials."strategy", trials."engine", trials."model", trials."model_digest", trials."num_gpus", trials."hosts", trials."device_kind", trials."variable_update", trials."local_parameter_device", trials."all_reduce", trials."staged_vars", trials."gradient_repacking", trials."compact_gradients", trials."precision", trials."loss_scale", trials."xla", trials."recompute", trials."optimizer", trials."learning_rate", trials."momentum", trials."learning_rate_warm_up", trials."weight_decay", trials."data", trials."data_dir", trials."distortions", trials."data_format", trials."image_px", trials."seq_len", trials."num_classes", trials."batch_size", trials."gradient_accumulation", trials."scaling", trials."steps_per_execution", trials."gpu_thread_mode", trials."gpu_thread_count", trials."num_inter_threads", trials."num_intra_threads", trials."onednn", trials."cudnn_autotune", trials."winograd_nonfused", trials."batchnorm_persistent", trials."cache", trials."data_threads", trials."prefetch", trials."visibility", trials."min_warm_up_steps", trials."min_warm_up_s", trials."num_steps", trials."min_window_s", trials."profile", trials."replica_times", trials."injected", trials."seed", trials."command", trials."shell", trials."read", trials."items_per_step", trials."per_gpu", trials."compare", trials."axes.flag", trials."axes.zero"
FROM attempts
JOIN trials ON trials.id = attempts.trial_id
JOIN sweeps ON sweeps.id = attempts.sweep_id
JOIN machines ON machines.id = attempts.machine_id
JOIN measurements ON measurements.attempt_id = attempts.id
LEFT JOIN environments ON environments.id = attempts.environment_id
WHERE attempts.outcome = 'completed' AND attempts.deleted_at IS NULL AND trials.device_kind <> 'simulated_gpu';
CREATE VIEW scaling AS 
SELECT compared.trial_id, compared.curve, compared.machine_id, compared.host, compared.gpu,
       compared.software_key, compared.shares_host, compared.item, compared.num_repeats,
       compared.lowest, compared.highest, compared.num_doubtful, compared.throughput,
       compared.throughput_on_1,
       compared.throughput / nullif(compared.throughput_on_1, 0) AS speed_up,
       compared.throughput / nullif(compared.throughput_on_1, 0)
           / compared.num_gpus AS efficiency, compared."strategy", compared."engine", compared."model", compared."model_digest", compared."num_gpus", compared."hosts", compared."device_kind", compared."variable_update", compared."local_parameter_device", compared."all_reduce", compared."staged_vars", compared."gradient_repacking", compared."compact_gradients", compared."precision", compared."loss_scale", compared."xla", compared."recompute", compared."optimizer", compared."learning_rate", compared."momentum", compared."learning_rate_warm_up", compared."weight_decay", compared."data", compared."data_dir", compared."distortions", compared."data_format", compared."image_px", compared."seq_len", compared."num_classes", compared."batch_size", compared."gradient_accumulation", compared."scaling", compared."steps_per_execution", compared."gpu_thread_mode", compared."gpu_thread_count", compared."num_inter_threads", compared."num_intra_threads", compared."onednn", compared."cudnn_autotune", compared."winograd_nonfused", compared."batchnorm_persistent", compared."cache", compared."data_threads", compared."prefetch", compared."visibility", compared."min_warm_up_steps", compared."min_warm_up_s", compared."num_steps", compared."min_window_s", compared."profile", compared."replica_times", compared."injected", compared."seed", compared."command", compared."shell", compared."read", compared."items_per_step", compared."per_gpu", compared."compare", compared."axes.flag", compared."axes.zero"
FROM (
  SELECT DISTINCT grouped.*,
  (
    SELECT avg(ranked.throughput)
    FROM (
      SELECT measurements.throughput,
             row_number() OVER (ORDER BY measurements.throughput) AS place,
             count(*) OVER () AS num
      FROM attempts
      JOIN measurements ON measurements.attempt_id = attempts.id
      JOIN environments ON environments.id = attempts.environment_id
      WHERE attempts.trial_id = grouped.trial_id AND attempts.machine_id = grouped.machine_id
            AND environments.software_key = grouped.software_key
            AND attempts.shares_host = grouped.shares_host AND measurements.item = grouped.item
            AND attempts.outcome = 'completed' AND attempts.deleted_at IS NULL
    ) AS ranked
    WHERE 2 * ranked.place BETWEEN ranked.num AND ranked.num + 2
  ) AS throughput,
  (
    SELECT avg(ranked.throughput)
    FROM (
      SELECT measurements.throughput,
             row_number() OVER (ORDER BY measurements.throughput) AS place,
             count(*) OVER () AS num
      FROM attempts
      JOIN measurements ON measurements.attempt_id = attempts.id
      JOIN environments ON environments.id = attempts.environment_id
      WHERE attempts.trial_id = (SELECT one.id FROM trials AS one
         WHERE one.curve = grouped.curve AND one.num_gpus = 1 AND one.hosts = 1) AND attempts.machine_id = grouped.machine_id
            AND environments.software_key = grouped.software_key
            AND attempts.shares_host = grouped.shares_host AND measurements.item = grouped.item
            AND attempts.outcome = 'completed' AND attempts.deleted_at IS NULL
    ) AS ranked
    WHERE 2 * ranked.place BETWEEN ranked.num AND ranked.num + 2
  ) AS throughput_on_1
  FROM (
    SELECT trials.id AS trial_id, trials.curve, trials."strategy", trials."engine", trials."model", trials."model_digest", trials."num_gpus", trials."hosts", trials."device_kind", trials."variable_update", trials."local_parameter_device", trials."all_reduce", trials."staged_vars", trials."gradient_repacking", trials."compact_gradients", trials."precision", trials."loss_scale", trials."xla", trials."recompute", trials."optimizer", trials."learning_rate", trials."momentum", trials."learning_rate_warm_up", trials."weight_decay", trials."data", trials."data_dir", trials."distortions", trials."data_format", trials."image_px", trials."seq_len", trials."num_classes", trials."batch_size", trials."gradient_accumulation", trials."scaling", trials."steps_per_execution", trials."gpu_thread_mode", trials."gpu_thread_count", trials."num_inter_threads", trials."num_intra_threads", trials."onednn", trials."cudnn_autotune", trials."winograd_nonfused", trials."batchnorm_persistent", trials."cache", trials."data_threads", trials."prefetch", trials."visibility", trials."min_warm_up_steps", trials."min_warm_up_s", trials."num_steps", trials."min_window_s", trials."profile", trials."replica_times", trials."injected", trials."seed", trials."command", trials."shell", trials."read", trials."items_per_step", trials."per_gpu", trials."compare", trials."axes.flag", trials."axes.zero",
           attempts.machine_id, machines.host, machines.gpu, environments.software_key,
           attempts.shares_host, measurements.item, count(*) AS num_repeats,
           min(measurements.throughput) AS lowest,
           max(measurements.throughput) AS highest,
           sum(CASE WHEN measurements.verdict = 'valid' THEN 0 ELSE 1 END) AS num_doubtful
    FROM attempts
    JOIN trials ON trials.id = attempts.trial_id
    JOIN machines ON machines.id = attempts.machine_id
    JOIN measurements ON measurements.attempt_id = attempts.id
    JOIN environments ON environments.id = attempts.environment_id
    WHERE attempts.outcome = 'completed' AND attempts.deleted_at IS NULL AND trials.device_kind <> 'simulated_gpu'
    GROUP BY trials.id, trials.curve, trials."strategy", trials."engine", trials."model", trials."model_digest", trials."num_gpus", trials."hosts", trials."device_kind", trials."variable_update", trials."local_parameter_device", trials."all_reduce", trials."staged_vars", trials."gradient_repacking", trials."compact_gradients", trials."precision", trials."loss_scale", trials."xla", trials."recompute", trials."optimizer", trials."learning_rate", trials."momentum", trials."learning_rate_warm_up", trials."weight_decay", trials."data", trials."data_dir", trials."distortions", trials."data_format", trials."image_px", trials."seq_len", trials."num_classes", trials."batch_size", trials."gradient_accumulation", trials."scaling", trials."steps_per_execution", trials."gpu_thread_mode", trials."gpu_thread_count", trials."num_inter_threads", trials."num_intra_threads", trials."onednn", trials."cudnn_autotune", trials."winograd_nonfused", trials."batchnorm_persistent", trials."cache", trials."data_threads", trials."prefetch", trials."visibility", trials."min_warm_up_steps", trials."min_warm_up_s", trials."num_steps", trials."min_window_s", trials."profile", trials."replica_times", trials."injected", trials."seed", trials."command", trials."shell", trials."read", trials."items_per_step", trials."per_gpu", trials."compare", trials."axes.flag", trials."axes.zero",
             attempts.machine_id, machines.host, machines.gpu, environments.software_key,
             attempts.shares_host, measurements.item
  ) AS grouped
) AS compared;
CREATE VIEW simulated_throughput AS 
SELECT attempts.id AS attempt_id, sweeps.name AS sweep, trials.id AS trial_id, machines.host,
       machines.gpu, environments.software_key, attempts.shares_host, attempts.repeat,
       measurements.item, measurements.throughput, measurements.throughput_low,
       measurements.throughput_high, measurements.median_step_s, measurements.p90_step_s,
       measurements.jitter_s, measurements.data_wait_share, measurements.cpu_s,
       measurements.peak_host_memory_bytes, measurements.peak_device_memory_bytes,
       measurements.mfu, measurements.peak_flops_per_s, measurements.variable_bytes,
       measurements.optimizer_state_bytes, measurements.verdict, attempts.started_at,
       trials."strategy", trials."engine", trials."model", trials."model_digest", trials."num_gpus", trials."hosts", trials."device_kind", trials."variable_update", trials."local_parameter_device", trials."all_reduce", trials."staged_vars", trials."gradient_repacking", trials."compact_gradients", trials."precision", trials."loss_scale", trials."xla", trials."recompute", trials."optimizer", trials."learning_rate", trials."momentum", trials."learning_rate_warm_up", trials."weight_decay", trials."data", trials."data_dir", trials."distortions", trials."data_format", trials."image_px", trials."seq_len", trials."num_classes", trials."batch_size", trials."gradient_accumulation", trials."scaling", trials."steps_per_execution", trials."gpu_thread_mode", trials."gpu_thread_count", trials."num_inter_threads", trials."num_intra_threads", trials."onednn", trials."cudnn_autotune", trials."winograd_nonfused", trials."batchnorm_persistent", trials."cache", trials."data_threads", trials."prefetch", trials."visibility", trials."min_warm_up_steps", trials."min_warm_up_s", trials."num_steps", trials."min_window_s", trials."profile", trials."replica_times", trials."injected", trials."seed", trials."command", trials."shell", trials."read", trials."items_per_step", trials."per_gpu", trials."compare", trials."axes.flag", trials."axes.zero"
FROM attempts
JOIN trials ON trials.id = attempts.trial_id
JOIN sweeps ON sweeps.id = attempts.sweep_id
JOIN machines ON machines.id = attempts.machine_id
JOIN measurements ON measurements.attempt_id = attempts.id
LEFT JOIN environments ON environments.id = attempts.environment_id
WHERE attempts.outcome = 'completed' AND attempts.deleted_at IS NULL AND trials.device_kind = 'simulated_gpu';
CREATE VIEW simulated_scaling AS 
SELECT compared.trial_id, compared.curve, compared.machine_id, compared.host, compared.gpu,
       compared.software_key, compared.shares_host, compared.item, compared.num_repeats,
       compared.lowest, compared.highest, compared.num_doubtful, compared.throughput,
       compared.throughput_on_1,
       compared.throughput / nullif(compared.throughput_on_1, 0) AS speed_up,
       compared.throughput / nullif(compared.throughput_on_1, 0)
           / compared.num_gpus AS efficiency, compared."strategy", compared."engine", compared."model", compared."model_digest", compared."num_gpus", compared."hosts", compared."device_kind", compared."variable_update", compared."local_parameter_device", compared."all_reduce", compared."staged_vars", compared."gradient_repacking", compared."compact_gradients", compared."precision", compared."loss_scale", compared."xla", compared."recompute", compared."optimizer", compared."learning_rate", compared."momentum", compared."learning_rate_warm_up", compared."weight_decay", compared."data", compared."data_dir", compared."distortions", compared."data_format", compared."image_px", compared."seq_len", compared."num_classes", compared."batch_size", compared."gradient_accumulation", compared."scaling", compared."steps_per_execution", compared."gpu_thread_mode", compared."gpu_thread_count", compared."num_inter_threads", compared."num_intra_threads", compared."onednn", compared."cudnn_autotune", compared."winograd_nonfused", compared."batchnorm_persistent", compared."cache", compared."data_threads", compared."prefetch", compared."visibility", compared."min_warm_up_steps", compared."min_warm_up_s", compared."num_steps", compared."min_window_s", compared."profile", compared."replica_times", compared."injected", compared."seed", compared."command", compared."shell", compared."read", compared."items_per_step", compared."per_gpu", compared."compare", compared."axes.flag", compared."axes.zero"
FROM (
  SELECT DISTINCT grouped.*,
  (
    SELECT avg(ranked.throughput)
    FROM (
      SELECT measurements.throughput,
             row_number() OVER (ORDER BY measurements.throughput) AS place,
             count(*) OVER () AS num
      FROM attempts
      JOIN measurements ON measurements.attempt_id = attempts.id
      JOIN environments ON environments.id = attempts.environment_id
      WHERE attempts.trial_id = grouped.trial_id AND attempts.machine_id = grouped.machine_id
            AND environments.software_key = grouped.software_key
            AND attempts.shares_host = grouped.shares_host AND measurements.item = grouped.item
            AND attempts.outcome = 'completed' AND attempts.deleted_at IS NULL
    ) AS ranked
    WHERE 2 * ranked.place BETWEEN ranked.num AND ranked.num + 2
  ) AS throughput,
  (
    SELECT avg(ranked.throughput)
    FROM (
      SELECT measurements.throughput,
             row_number() OVER (ORDER BY measurements.throughput) AS place,
             count(*) OVER () AS num
      FROM attempts
      JOIN measurements ON measurements.attempt_id = attempts.id
      JOIN environments ON environments.id = attempts.environment_id
      WHERE attempts.trial_id = (SELECT one.id FROM trials AS one
         WHERE one.curve = grouped.curve AND one.num_gpus = 1 AND one.hosts = 1) AND attempts.machine_id = grouped.machine_id
            AND environments.software_key = grouped.software_key
            AND attempts.shares_host = grouped.shares_host AND measurements.item = grouped.item
            AND attempts.outcome = 'completed' AND attempts.deleted_at IS NULL
    ) AS ranked
    WHERE 2 * ranked.place BETWEEN ranked.num AND ranked.num + 2
  ) AS throughput_on_1
  FROM (
    SELECT trials.id AS trial_id, trials.curve, trials."strategy", trials."engine", trials."model", trials."model_digest", trials."num_gpus", trials."hosts", trials."device_kind", trials."variable_update", trials."local_parameter_device", trials."all_reduce", trials."staged_vars", trials."gradient_repacking", trials."compact_gradients", trials."precision", trials."loss_scale", trials."xla", trials."recompute", trials."optimizer", trials."learning_rate", trials."momentum", trials."learning_rate_warm_up", trials."weight_decay", trials."data", trials."data_dir", trials."distortions", trials."data_format", trials."image_px", trials."seq_len", trials."num_classes", trials."batch_size", trials."gradient_accumulation", trials."scaling", trials."steps_per_execution", trials."gpu_thread_mode", trials."gpu_thread_count", trials."num_inter_threads", trials."num_intra_threads", trials."onednn", trials."cudnn_autotune", trials."winograd_nonfused", trials."batchnorm_persistent", trials."cache", trials."data_threads", trials."prefetch", trials."visibility", trials."min_warm_up_steps", trials."min_warm_up_s", trials."num_steps", trials."min_window_s", trials."profile", trials."replica_times", trials."injected", trials."seed", trials."command", trials."shell", trials."read", trials."items_per_step", trials."per_gpu", trials."compare", trials."axes.flag", trials."axes.zero",
           attempts.machine_id, machines.host, machines.gpu, environments.software_key,
           attempts.shares_host, measurements.item, count(*) AS num_repeats,
           min(measurements.throughput) AS lowest,
           max(measurements.throughput) AS highest,
           sum(CASE WHEN measurements.verdict = 'valid' THEN 0 ELSE 1 END) AS num_doubtful
    FROM attempts
    JOIN trials ON trials.id = attempts.trial_id
    JOIN machines ON machines.id = attempts.machine_id
    JOIN measurements ON measurements.attempt_id = attempts.id
    JOIN environments ON environments.id = attempts.environment_id
    WHERE attempts.outcome = 'completed' AND attempts.deleted_at IS NULL AND trials.device_kind = 'simulated_gpu'
    GROUP BY trials.id, trials.curve, trials."strategy", trials."engine", trials."model", trials."model_digest", trials."num_gpus", trials."hosts", trials."device_kind", trials."variable_update", trials."local_parameter_device", trials."all_reduce", trials."staged_vars", trials."gradient_repacking", trials."compact_gradients", trials."precision", trials."loss_scale", trials."xla", trials."recompute", trials."optimizer", trials."learning_rate", trials."momentum", trials."learning_rate_warm_up", trials."weight_decay", trials."data", trials."data_dir", trials."distortions", trials."data_format", trials."image_px", trials."seq_len", trials."num_classes", trials."batch_size", trials."gradient_accumulation", trials."scaling", trials."steps_per_execution", trials."gpu_thread_mode", trials."gpu_thread_count", trials."num_inter_threads", trials."num_intra_threads", trials."onednn", trials."cudnn_autotune", trials."winograd_nonfused", trials."batchnorm_persistent", trials."cache", trials."data_threads", trials."prefetch", trials."visibility", trials."min_warm_up_steps", trials."min_warm_up_s", trials."num_steps", trials."min_window_s", trials."profile", trials."replica_times", trials."injected", trials."seed", trials."command", trials."shell", trials."read", trials."items_per_step", trials."per_gpu", trials."compare", trials."axes.flag", trials."axes.zero",
             attempts.machine_id, machines.host, machines.gpu, environments.software_key,
             attempts.shares_host, measurements.item
  ) AS grouped
) AS compared;
COMMIT;