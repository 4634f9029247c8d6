import PushSettings
import TestSupport
import Testing

/// So many credentials, each for production and sandbox.
private func tokens(_ count: Int) -> String {
  "credentials:"
    + (0..<count).map {
      "\n- {name: c\($0), team_id: ABCDE12345, key_id: ABCDE1234\($0 % 10), key_file: k, apps: [a\($0)]}"
    }
    .joined()
}

/// Every error message, word for word: what is wrong, where, and the rule.
@Suite struct ConfigurationErrorTests {
  @Test(arguments: [
    // Keys.
    ("rabitmq: {}", ["herald.yaml:1: rabitmq: unknown key; did you mean rabbitmq?"]),
    ("redis:\n  timout_ms: 3", ["herald.yaml:2: redis.timout_ms: unknown key; did you mean redis.timeout_ms?"]),
    ("lane: 3", ["herald.yaml:1: lane: unknown key; did you mean lanes?"]),
    ("something_else: 3", ["herald.yaml:1: something_else: unknown key"]),
    ("3: 4", ["herald.yaml:1: 3: unknown key"]),
    ("[a]: 4", ["herald.yaml:1: a key must be a word"]),
    // Types.
    ("redis: 3", ["herald.yaml:1: redis: must be a mapping of options"]),
    ("lanes: many", ["herald.yaml:1: lanes: must be an integer from 0 to 256, not many"]),
    ("lanes: \"3\"", ["herald.yaml:1: lanes: must be an integer from 0 to 256, not \"3\""]),
    ("lanes: [3]", ["herald.yaml:1: lanes: must be an integer from 0 to 256, not [3]"]),
    ("lanes: {a: 3}", ["herald.yaml:1: lanes: must be an integer from 0 to 256, not a mapping"]),
    ("lanes:", ["herald.yaml:1: lanes: must be an integer from 0 to 256, not null"]),
    ("lanes: 257", ["herald.yaml:1: lanes: must be an integer from 0 to 256, not 257"]),
    ("lanes: 1.5", ["herald.yaml:1: lanes: must be an integer from 0 to 256, not 1.5"]),
    (
      "lanes: 99999999999999999999",
      ["herald.yaml:1: lanes: must be an integer from 0 to 256, not 99999999999999999999"]
    ),
    (
      "limits: {per_device_per_second: .nan}",
      ["herald.yaml:1: limits.per_device_per_second: must be a number from 0.001 to 1000.0, not .nan"]
    ),
    (
      "limits: {on_limit: wait}", ["herald.yaml:1: limits.on_limit: must be one of delay, drop, not wait"]
    ),
    ("results: {log: yes}", ["herald.yaml:1: results.log: must be true or false, not yes"]),
    (
      "results: {log_max_age: 7d}",
      ["herald.yaml:1: results.log_max_age: must be a number of Y, M, D, h, m or s, such as 7D, not 7d"]
    ),
    (
      "activities: {id_attribute: \"a..b\"}",
      [
        """
        herald.yaml:1: activities.id_attribute: must be 1 to 8 keys with dots between them, such as herald.activityId, at most \
        128 bytes, or null, not "a..b"
        """
      ]
    ),
    (
      "retry: {delays_s: [5, 1]}",
      [
        "herald.yaml:1: retry.delays_s: must be an ascending list of 1 to 16 integers, each from 1 to 86400, not [5, 1]"
      ]
    ),
    (
      "retry: {delays_s: []}",
      ["herald.yaml:1: retry.delays_s: must be an ascending list of 1 to 16 integers, each from 1 to 86400, not []"]
    ),
    (
      "rabbitmq: {prefix: \"a b\"}",
      ["herald.yaml:1: rabbitmq.prefix: must be 1 to 64 letters, digits, '.', '_' and '-', not \"a b\""]
    ),
    (
      "redis: {prefix: \"{a}\"}",
      [
        "herald.yaml:1: redis.prefix: must be at most 64 printable characters without spaces and braces, not \"{a}\""
      ]
    ),
    (
      "apns: {production: \"http://a\"}",
      ["herald.yaml:1: apns.production: must be a URL https://host:port, not http://… (8 characters)"]
    ),
    (
      "apns: {sandbox: \"https://a/path\"}",
      ["herald.yaml:1: apns.sandbox: must be a URL https://host:port, not https://… (14 characters)"]
    ),
    ("admin: {host: \"a b\"}", ["herald.yaml:1: admin.host: must be an address or host name, not \"a b\""]),
    // The gateway.
    (
      "gateway: {certificate_file: c.pem}", ["gateway.private_key_file: is missing beside the other file"]
    ),
    (
      "gateway: {client_ca_file: c.pem}",
      ["gateway.client_ca_file: needs gateway.certificate_file: clients show certificates in TLS alone"]
    ),
    ("gateway: {applications: [a]}", ["herald.yaml:1: gateway.applications: must be a mapping of application codes"]),
    (
      "gateway:\n  applications:\n    A-B: {ap: com.example.app}",
      [
        "herald.yaml:3: gateway.applications.A-B.ap: unknown key; did you mean app?",
        "herald.yaml:3: gateway.applications.A-B.app: must be a bundle id",
      ]
    ),
    (
      "gateway:\n  applications:\n    A-B: {app: com.example.app, environment: test}",
      ["herald.yaml:3: gateway.applications.A-B.environment: must be production or sandbox, not test"]
    ),
    (
      "gateway:\n  applications:\n    A-B: {app: com.example.app, default_alert: {title: a}}",
      ["herald.yaml:3: gateway.applications.A-B.default_alert: must have both, title and body"]
    ),
    // Of a wrong URL only scheme and length are shown.
    (
      "rabbitmq: {url: \"amqp://user:secret@host:port/\"}",
      [
        "rabbitmq.url: must be a URL amqp://user:password@host:port/vhost (amqps:// for TLS), not amqp://… (29 characters)"
      ]
    ),
    (
      "apns: {proxy: \"socks://user:secret@host\"}",
      [
        "apns.proxy: must be a URL http://user:password@host:port, or null, not a text of 24 characters"
      ]
    ),
    // Nobody knows what is a password in a text that is not a URL.
    ("redis: {url: \"redis:/:secret@host\"}", ["not a text of 19 characters"]),
    ("rabbitmq: {url: \"svc:secret@rabbit:5672\"}", ["not a text of 22 characters"]),
    (
      "rabbitmq: {urls: [\"amqp://a/\", \"svc:secret@rabbit\"]}",
      ["not [amqp://… (9 characters), a text of 17 characters]"]
    ),
    ("registry: {url: \"redis:/:secret@host\"}", ["not a text of 19 characters"]),
    ("apns: {proxy: \"user:secret@proxy:3128\"}", ["or null, not a text of 22 characters"]),
    ("apns: {production: \"https://user:secret@host\"}", ["not https://… (24 characters)"]),
    ("admin: {host: \"user:secret@host\"}", ["not a text of 16 characters"]),
    ("redis: {\"redis://:secret@host\": 1}", ["a text of 26 characters: unknown key"]),
    (
      "redis: {url: \"redis-sentinel://a/m?sentinel_password=secret&x=1\"}",
      ["not redis-sentinel://… (49 characters)"]
    ),
    // Files.
    ("- a", ["herald.yaml:1: must be a mapping of sections and options"]),
    ("a: [", ["herald.yaml:2: is not YAML: did not find expected node content while parsing a flow node (column 1)"]),
    ("lanes: 1\nlanes: 2", ["herald.yaml:1: the mapping that begins here has the key lanes twice"]),
    // Relations.
    (
      "lanes: 256\nrabbitmq: {prefetch: 65535}",
      [
        """
        rabbitmq.prefetch: must be at most 7812 with lanes 256, not 65535: a process holds at most 2000000 deliveries; lower it or \
        lanes, and start more workers
        """
      ]
    ),
    (
      "lanes: 256\napns: {connections_max: 100}\n\(tokens(20))",
      [
        """
        apns.connections_max: must be at most 97 with 20 credentials (each counts once an environment) and lanes 256, not 100: a \
        process opens at most 1000000 connections; lower it or lanes, and start more workers
        """
      ]
    ),
    (
      "drain_timeout_s: 5",
      [
        "drain_timeout_s: must be at least apns.request_timeout_ms (10000 ms), not 5: else requests in flight"
      ]
    ),
    (
      "redis: {timeout_ms: 200}\napns: {request_timeout_ms: 100}",
      ["redis.timeout_ms: must be below apns.request_timeout_ms (100), not 200"]
    ),
    (
      "retry: {age_max_s: 600}",
      ["retry.age_max_s: must be above the longest of retry.delays_s (600), not 600: that delay could never be used"]
    ),
    (
      "limits: {per_device_burst: 1000, per_device_per_second: 0.0001}",
      ["limits.per_device_per_second: must be a number from 0.001 to 1000.0, not 0.0001"]
    ),
    // All at once, in the order of the file.
    (
      "lanes: x\nadmin:\n  port: 70000\n  pot: 1",
      [
        "herald.yaml:1: lanes: must be an integer from 0 to 256, not x",
        "herald.yaml:3: admin.port: must be an integer from 0 to 65535, not 70000",
        "herald.yaml:4: admin.pot: unknown key; did you mean admin.port?",
      ]
    ),
  ])
  func files(text: String, messages: [String]) throws {
    expect(messages, file: text)
  }

  @Test(arguments: [
    ("{name: a}", ["exactly one of key_file, certificate_file and p12_file, not none", "apps: is missing"]),
    (
      "{name: a, apps: [b], key_file: k, p12_file: p}",
      ["must have exactly one of key_file, certificate_file and p12_file, not key_file and p12_file"]
    ),
    (
      "{name: a b, apps: [b], key_file: k, team_id: DEF123GHIJ, key_id: ABC123DEFG}",
      ["credentials[0].name: must be 1 to 64 letters, digits, '.', '_' and '-', not a b"]
    ),
    (
      "{apps: [b], key_file: k, team_id: short, key_id: ABC123DEFG}",
      [
        "credentials[0].name: is missing: 1 to 64 letters",
        "credentials[0].team_id: must be 10 capital letters and digits, as Apple shows it, not short",
      ]
    ),
    (
      "{name: a, apps: [b], key_file: k, team_id: DEF123GHIJ, key_id: ABC123DEFG, passphrase_file: p}",
      ["credentials[0].passphrase_file: does not apply to key_file: remove one of the two"]
    ),
    (
      "{name: a, apps: [b], certificate_file: c, team_id: DEF123GHIJ, private_key_file: k}",
      ["credentials[0].team_id: does not apply to certificate_file: remove one of the two"]
    ),
    (
      "{name: a, apps: [b], certificate_file: c}",
      ["credentials[0].private_key_file: is missing: a file's path, relative to the configuration file"]
    ),
    (
      #"{name: a, apps: [b], key_file: "-----BEGIN PRIVATE KEY-----\nMIGT", team_id: DEF123GHIJ, key_id: ABC123DEFG}"#,
      [
        """
        credentials[0].key_file: must be a file's path, relative to the configuration file, not what looks like a secret (a file of \
        such a name needs ./ in front)
        """
      ]
    ),
    (
      "{name: a, apps: [b], p12_file: c, passphrase_file: /does/not/exist}",
      ["credentials[0].passphrase_file: cannot read the file /… (a name of 14 characters)"]
    ),
    (
      "{name: a, apps: [], p12_file: c, environments: [production, test]}",
      [
        "[0].environments: must be a list of production and sandbox, each at most once, not [production, test]",
        "[0].apps: must be a list of one or more bundle ids (letters, digits, '.', '_' and '-'), each once, not []",
      ]
    ),
    (
      "{name: a, apps: [b, b], p12_file: c, environments: []}",
      ["credentials[0].environments: must be", "credentials[0].apps: must be"]
    ),
    (
      "{name: a, apps: [b], p12_file: c, keyfile: d}",
      ["credentials[0].keyfile: unknown key; did you mean key_file?"]
    ),
    ("a", ["credentials[0]: must be a mapping of name, team_id, key_id"]),
    (
      "{name: a, apps: [b], p12_file: c}\n  - {name: a, apps: [c], p12_file: d}",
      ["herald.yaml:3: credentials[1].name: must be unique: a is there already"]
    ),
  ])
  func credentials(text: String, messages: [String]) throws {
    expect(messages, file: "credentials:\n  - \(text)")
  }

  @Test func credentialsMustBeAList() {
    expect(["herald.yaml:1: credentials: must be a list"], file: "credentials: {name: a}")
  }

  @Test(arguments: [
    (
      ["HERALD_RABBITMQ_PREFECH": "1"],
      "HERALD_RABBITMQ_PREFECH: unknown variable; did you mean HERALD_RABBITMQ_PREFETCH?"
    ),
    (["HERALD_LANES": "x"], "HERALD_LANES: lanes: must be an integer from 0 to 256, not x"),
    (
      ["HERALD_REDIS_URL": "redis://a", "HERALD_REDIS_URL_FILE": "/dev/null"],
      "HERALD_REDIS_URL: redis.url: is given twice: by HERALD_REDIS_URL and by HERALD_REDIS_URL_FILE; keep one"
    ),
    (
      ["HERALD_REDIS_URL_FILE": "/does/not/exist"],
      "HERALD_REDIS_URL_FILE: redis.url: cannot read the file /… (a name of 14 characters)"
    ),
    (
      ["HERALD_APNS_PROXY": "https://user:secret@a"],
      "HERALD_APNS_PROXY: apns.proxy: must be a URL http://user:password@host:port, or null, not https://… (21 characters)"
    ),
  ])
  func variables(environment: [String: String], message: String) {
    #expect(throws: ConfigurationError.self) {
      try ConfigurationLoader.load(file: nil, environment: environment)
    }
    #expect(problems(nil, environment).contains(message), "\(problems(nil, environment))")
  }

  @Test func variablesOfOthersAreLeftAlone() throws {
    _ = try ConfigurationLoader.load(
      file: nil,
      environment: [
        "HERALD_CONFIG": "a", "HERALD_SERVICE_HOST": "10.0.0.1", "HERALD_PORT": "tcp://10.0.0.1:80",
        "HERALD_ADMIN_PORT": "tcp://10.0.0.1:8080", "HERALD_ADMIN_SERVICE_HOST": "10.0.0.1", "HERALD_IMAGE": "a",
        "HERALD_REDIS_PORT_6379_TCP_ADDR": "10.0.0.1", "HERALDIC": "lion",
      ])
  }

  @Test func flags() {
    let override = ConfigurationLoader.Override(flag: "--log-level", path: "log.level", text: "loud")
    let error = #expect(throws: ConfigurationError.self) {
      try ConfigurationLoader.load(file: nil, overrides: [override])
    }
    #expect(
      error?.description
        == "--log-level: log.level: must be one of trace, debug, info, notice, warning, error, critical, not loud")
  }

  @Test func missingFile() {
    #expect(problems("/does/not/exist.yaml", [:]) == ["/does/not/exist.yaml: does not exist"])
    #expect(problems("/tmp", [:]) == ["/tmp: cannot be read"])
  }

  /// Loads a file with this text and compares what is wrong: each message is part of one problem, in order.
  /// Options that are valid alone, whose lanes' tables are more than the process has.
  @Test func tablesMustFitIntoTheMemory() throws {
    func problems(_ prefetch: Int, mebibytes: Int) -> [String] {
      let flags = [("lanes", "4"), ("rabbitmq.prefetch", "\(prefetch)")].map {
        ConfigurationLoader.Override(flag: "--x", path: $0.0, text: $0.1)
      }
      do {
        try ConfigurationLoader.load(file: nil, overrides: flags).checkTables(memoryBytes: mebibytes << 20)
        return []
      } catch {
        return error.problems.map(\.description)
      }
    }
    #expect(problems(2_000, mebibytes: 16).isEmpty && problems(65_535, mebibytes: 512).isEmpty)
    #expect(
      problems(65_535, mebibytes: 511) == [
        """
        rabbitmq.prefetch: 65535 with lanes 4 takes 511 MiB for tables alone, of the 511 MiB that this process may use; lower it or lanes
        """
      ])
    #expect(problems(2_000, mebibytes: 15).count == 1)
    let files = [
      "/sys/fs/cgroup/memory.max": "max\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    ]
    #expect(MemoryLimit.bytes(machine: 1 << 34) { files[$0] } == 1 << 34)
    #expect(MemoryLimit.bytes(machine: 1 << 34) { $0.hasSuffix(".max") ? "536870912\n" : nil } == 512 << 20)
    #expect(MemoryLimit.bytes(machine: .max) { _ in nil } == .max)
  }

  private func expect(_ messages: [String], file text: String, sourceLocation: SourceLocation = #_sourceLocation) {
    do {
      let file = try File(text)
      let found = problems(file.path, [:]).map { $0.replacing(file.path, with: "herald.yaml") }
      #expect(found.count == messages.count, "\(found)", sourceLocation: sourceLocation)
      for (problem, message) in zip(found, messages) {
        #expect(problem.contains(message), sourceLocation: sourceLocation)
      }
    } catch {
      Issue.record(error, sourceLocation: sourceLocation)
    }
  }

  private func problems(_ file: String?, _ environment: [String: String]) -> [String] {
    do throws(ConfigurationError) {
      _ = try ConfigurationLoader.load(file: file, environment: environment)
      return []
    } catch {
      return error.problems.map(\.description)
    }
  }
}
