import APNsSimulator

/// How each kind of fault begins and ends.
extension WorkerWorld {
  private func place(_ draw: UInt64, _ count: Int) -> Int { Int(draw % UInt64(max(1, count))) }

  private func line(_ draw: UInt64) -> SimulatedLine? {
    network.lines.isEmpty ? nil : network.lines[place(draw, network.lines.count)]
  }

  private func workQueue(_ draw: UInt64) -> String? {
    let names = rabbitmq.queueNames.filter { !$0.hasSuffix(".results.log") }
    return names.isEmpty ? nil : names[place(draw, names.count)]
  }

  func begin(_ number: Int) throws {
    guard let fault = plan.faults[number] else { return }
    note("fault \(number) \(fault.kind)")
    switch fault.kind.family {
    case .network: beginNetwork(number, fault)
    case .worker: try beginWorker(number, fault)
    case .rabbitmq:
      beginRabbitMQ(number, fault)
      network.act(rabbitmq)
    case .redis, .memory:
      try beginRedis(number, fault)
      for node in redis { network.act(node) }
    case .apns: try beginAPNs(number, fault)
    }
  }

  func end(_ number: Int, _ argument: UInt64) throws {
    guard let fault = plan.faults[number] else { return }
    note("over \(number) \(fault.kind)")
    switch fault.kind.family {
    case .network: endNetwork(fault, argument)
    case .worker: workers[Int(argument)]?.setClock(offsetMilliseconds: 0)
    case .rabbitmq:
      endRabbitMQ(fault)
      network.act(rabbitmq)
    case .redis, .memory:
      try endRedis(number, fault, argument)
      for node in redis { network.act(node) }
    case .apns: apns.remove(fault: Int(argument))
    }
  }

  private func scheduleEnd(_ number: Int, _ fault: WorkerPlan.Fault, _ argument: UInt64 = 0) {
    schedule(.end(number, argument), at: network.now + fault.nanoseconds)
  }

  // MARK: - The network

  private func beginNetwork(_ number: Int, _ fault: WorkerPlan.Fault) {
    switch fault.kind {
    case .cut: if let line = line(fault.draw) { network.cut(line) }
    case .silence:
      guard let line = line(fault.draw) else { return }
      network.silence(line)
      scheduleEnd(number, fault, UInt64(line.id.number))
    case .refuse:
      let port =
        fault.draw % 2 == 0 ? WorkerWorld.rabbitmqPort : redis[place(fault.draw >> 1, redis.count)].settings.port
      network.refuse(port)
      scheduleEnd(number, fault, UInt64(port))
    default: preconditionFailure("no fault of this family")
    }
  }

  private func endNetwork(_ fault: WorkerPlan.Fault, _ argument: UInt64) {
    switch fault.kind {
    case .silence:
      if let line = network.lines.first(where: { UInt64($0.id.number) == argument }) { network.heal(line) }
    case .refuse:
      let port = UInt16(argument)
      network.listen(port, port == WorkerWorld.rabbitmqPort ? rabbitmq : redis[Int(port - WorkerWorld.redisPort)])
    default: break
    }
  }

  // MARK: - The workers

  private func beginWorker(_ number: Int, _ fault: WorkerPlan.Fault) throws {
    let index = place(fault.draw, workers.count)
    guard let worker = workers[index] else { return }
    switch fault.kind {
    case .killWorker where settings.killsAtAnyByte && fault.draw >> 32 % 3 != 0:
      worker.die(afterBytes: Int(fault.draw >> 40 % 8192), absenceNanoseconds: fault.nanoseconds)
    case .killWorker:
      worker.kill()
      retire(index, after: fault.nanoseconds)
    case .drainWorker:
      worker.drain()
      schedule(.expectEnded(index, worker), at: network.now + SimulatedWorker.drainNanosecondsMaximum)
    case .reloadWorker: try reload(worker, draw: fault.draw >> 8)
    case .setClock:
      let span: Int64 = settings.clocksDriftByHours ? 6 * 3_600_000 : 600_000
      worker.setClock(offsetMilliseconds: Int64(fault.draw >> 8 & 0xFFFF_FFFF) % (2 * span) - span)
      scheduleEnd(number, fault, UInt64(index))
    default: preconditionFailure("no fault of this family")
    }
  }

  // MARK: - RabbitMQ

  private func beginRabbitMQ(_ number: Int, _ fault: WorkerPlan.Fault) {
    let now = network.now
    let connections = rabbitmq.connections
    switch fault.kind {
    case .restartBroker: rabbitmq.restart(now: now)
    case .stopBroker:
      rabbitmq.stop(now: now)
      scheduleEnd(number, fault)
    case .closeConnections: for connection in connections { rabbitmq.closeConnection(connection, now: now) }
    case .closeChannel:
      guard !connections.isEmpty else { return }
      let connection = connections[place(fault.draw, connections.count)]
      rabbitmq.closeChannel(connection, channel: UInt16(1 + fault.draw >> 32 & 1), now: now)
    case .cancelConsumers: if let queue = workQueue(fault.draw) { rabbitmq.cancelConsumers(of: queue, now: now) }
    case .moveLeader:
      guard let queue = workQueue(fault.draw) else { return }
      rabbitmq.moveLeader(of: queue, unavailableNanoseconds: fault.nanoseconds, now: now)
    case .alarm:
      rabbitmq.setAlarm("memory", isOn: true, now: now)
      scheduleEnd(number, fault)
    case .dropConfirms: rabbitmq.dropNextConfirms(1 + place(fault.draw, 20))
    case .refusePublishes: rabbitmq.refuseNextPublishes(1 + place(fault.draw, 20))
    case .deleteQueue:
      guard let queue = workQueue(fault.draw), rabbitmq.messageCount(in: queue) == 0 else { return }
      rabbitmq.deleteQueue(queue, now: now)
    case .unbind:
      // Outcomes go nowhere, and come back.
      rabbitmq.unbind(queue: "push.results.log", exchange: "push.results", routingKey: "#", now: now)
    default: preconditionFailure("no fault of this family")
    }
  }

  private func endRabbitMQ(_ fault: WorkerPlan.Fault) {
    switch fault.kind {
    case .stopBroker: rabbitmq.start(now: network.now)
    case .alarm: rabbitmq.setAlarm("memory", isOn: false, now: network.now)
    default: break
    }
  }

  // MARK: - Redis

  private func beginRedis(_ number: Int, _ fault: WorkerPlan.Fault) throws {
    let now = network.now
    let index = place(fault.draw, redis.count)
    let node = redis[index]
    if fault.kind.family == .memory {
      auditor.storeForgot()
      channelUsers.storeForgot()
    }
    switch fault.kind {
    case .stallRedis: node.stall()
    case .loadRedis: node.isLoading = true
    case .readOnlyRedis: node.role = .replica(host: "127.0.0.1", port: 1)
    case .fullRedis: node.isOutOfMemory = true
    case .busyRedis: node.isBusy = true
    case .fewerLimits: return try beginFewerLimits(number, fault)
    case .flushScripts: return node.flushScripts()
    case .jumpRedisClock:
      // Nodes of a cluster have clocks of their own.
      let span = WorkerWorld.jumpNanosecondsMaximum / 1000
      return node.jumpClock(byMicroseconds: Int64(fault.draw >> 8 & 0xFFFF_FFFF) % (2 * span) - span)
    case .emptyRedis: return node.flush(now: now)
    case .crashRedis:
      node.crash(forgetting: fault.nanoseconds, now: now)
    case .evictRedis:
      node.evict(count: 1 + place(fault.draw >> 8, 20), now: now)
      return
    case .failOverRedis: return failOverRedis(number, fault)
    case .moveSlots:
      guard let cluster else { return }
      let slots = Set(node.keys(now: now).map { SimulatedRedisSlot.of($0) }).sorted()
      guard !slots.isEmpty else { return }
      let slot = slots[place(fault.draw >> 8, slots.count)]
      cluster.beginMove(of: slot, to: (index + 1) % redis.count)
      return scheduleEnd(number, fault, UInt64(slot))
    default: preconditionFailure("no fault of this family")
    }
    scheduleEnd(number, fault, UInt64(index))
  }

  /// The replica takes over. One of the Sentinels hears of it later, and so long it names the old one, which may be gone or there.
  private func failOverRedis(_ number: Int, _ fault: WorkerPlan.Fault) {
    guard let old = redis.firstIndex(where: \.isPrimary), redis.count == 2, redis[1 - old].isUp else { return }
    redis[1 - old].takeOver(from: redis[old], forgetting: fault.nanoseconds / 4, now: network.now)
    if fault.draw & 1 == 0 { redis[old].crash() }
    sentinels.first?.primaries = [WorkerWorld.primary(redis[1 - old].settings)]
    scheduleEnd(number, fault, UInt64(old))
  }

  /// The lanes of a new worker ask Redis for nothing before all of it is connected, for a while.
  private func beginFewerLimits(_ number: Int, _ fault: WorkerPlan.Fault) throws {
    let index = place(fault.draw >> 8, workers.count)
    guard let worker = workers[index] else { return }
    for node in redis { node.stall() }
    worker.kill()
    auditor.ended(worker)
    workers[index] = try makeWorker(index, version: WorkerWorld.overridesVersion)
    let (least, most) = (WorkerWorld.earlyNanoseconds.lowerBound, WorkerWorld.earlyNanoseconds.upperBound)
    let wait = least + fault.nanoseconds % (most - least)
    schedule(.end(number, UInt64(index)), at: network.now + wait)
  }

  /// First the worker hears that the overrides are gone, then Redis answers.
  private func endFewerLimits(_ number: Int, _ argument: UInt64) throws {
    let index = Int(argument)
    guard index < workers.count else {
      for node in redis { node.resume(now: network.now) }
      return
    }
    if let worker = workers[index] { try reload(worker, draw: 0) }
    schedule(.end(number, UInt64(workers.count)), at: network.now + WorkerWorld.reloadNanoseconds)
  }

  private func endRedis(_ number: Int, _ fault: WorkerPlan.Fault, _ argument: UInt64) throws {
    if fault.kind == .fewerLimits { return try endFewerLimits(number, argument) }
    if fault.kind == .moveSlots {
      // The third one hears of it later, by asking.
      cluster?.endMove(of: Int(argument), now: network.now)
      return
    }
    let node = redis[Int(argument)]
    switch fault.kind {
    case .stallRedis: node.resume(now: network.now)
    case .loadRedis: node.isLoading = false
    case .readOnlyRedis: node.role = .primary
    case .fullRedis: node.isOutOfMemory = false
    case .busyRedis: node.isBusy = false
    case .crashRedis: node.start()
    case .failOverRedis:
      node.start()
      if let primary = redis.first(where: \.isPrimary) {
        for sentinel in sentinels { sentinel.primaries = [WorkerWorld.primary(primary.settings)] }
      }
    default: break
    }
  }

  // MARK: - APNs

  private func beginAPNs(_ number: Int, _ fault: WorkerPlan.Fault) throws {
    let text: String
    switch fault.kind {
    case .failAPNs:
      text =
        fault.draw % 2 == 0 ? "share=0.5,status=503,reason=ServiceUnavailable" : "status=500,reason=InternalServerError"
    case .throttleAPNs: text = "share=0.2,status=429,reason=TooManyRequests"
    case .slowAPNs: text = "latency=2000-6000"
    case .goAwayAPNs:
      if fault.draw % 2 == 0 { return try apns.act("goaway=all") }
      text = "share=0.1,goaway=previous"
    case .dropAPNs: return try apns.act("drop")
    case .refuseStreams: text = "share=0.3,reset=7"
    case .resetStreams: text = "share=0.1,reset=8,processed"
    case .silenceStreams: text = fault.draw % 2 == 0 ? "share=0.1,silence" : "share=0.1,silence,processed"
    case .changeStreams: text = "streams=1000/1/20/3,every=200"
    case .withholdWindow: text = "withhold-window"
    case .ignorePings: text = "no-ping-ack"
    case .revokeKey: text = "status=403,reason=InvalidProviderToken"
    case .expireToken: text = "times=\(1 + place(fault.draw, 3)),status=403,reason=ExpiredProviderToken"
    default: preconditionFailure("no fault of this family")
    }
    scheduleEnd(number, fault, UInt64(try apns.add(fault: text)))
  }
}
