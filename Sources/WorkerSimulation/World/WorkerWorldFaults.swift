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

  private func hit(_ fault: WorkerPlan.Fault) -> (index: Int, worker: SimulatedWorker)? {
    let index = place(fault.draw, workers.count)
    return workers[index].map { (index, $0) }
  }

  /// Whether a fault of one of these kinds is planned.
  func hasFault(of kinds: Set<WorkerFault>) -> Bool {
    plan.faults.contains { $0.map { kinds.contains($0.kind) } == true }
  }

  private func node(_ fault: WorkerPlan.Fault) -> SimulatedRedis { redis[place(fault.draw, redis.count)] }

  func begin(_ number: Int) throws {
    guard let fault = plan.faults[number] else { return }
    note("fault \(number) \(fault.kind)")
    if fault.kind.family == .memory {
      auditor.redisLostData()
      let since = fault.kind == .rewindRedis ? network.now - fault.nanoseconds : .min
      channelUsers.redisLostData(since: since, now: network.now)
    }
    doubt(fault)
    fairness.disturbed(from: network.now, forNanoseconds: disturbance(fault))
    try start(number, fault)
    act()
  }

  /// Tells the auditors of audiences of a fault that they cannot see through.
  private func doubt(_ fault: WorkerPlan.Fault) {
    let now = WorkerWorld.unixMilliseconds(at: network.now)
    let end = WorkerWorld.unixMilliseconds(at: network.now + fault.nanoseconds)
    for auditor in [audiences, otherAudiences].compactMap(\.self) {
      switch fault.kind {
      case .crashRedis, .failOverRedis, .moveSlots: auditor.redisLostData(from: now, until: end)
      case .emptyRedis, .rewindRedis, .evictRedis: auditor.redisLostData(from: now, until: now)
      case .setClock: auditor.clockWasWrong(from: now, until: end)
      default: break
      }
    }
  }

  func end(_ number: Int, _ argument: UInt64) throws {
    guard let fault = plan.faults[number] else { return }
    note("over \(number) \(fault.kind)")
    try stop(number, fault, argument)
    act()
  }

  /// Carries out pending actions of the servers.
  private func act() {
    network.act(rabbitmq)
    for node in redis { network.act(node) }
  }

  private func start(_ number: Int, _ fault: WorkerPlan.Fault) throws {
    let now = network.now
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

    case .killWorker: killWorker(fault)
    case .drainWorker:
      guard let (index, worker) = hit(fault) else { return }
      worker.drain()
      schedule(.expectEnded(index, worker), at: now + SimulatedWorker.drainNanosecondsMaximum)
    case .reloadWorker: if let (_, worker) = hit(fault) { try reload(worker, draw: fault.draw >> 8) }
    case .revokeCredential:
      guard let (index, worker) = hit(fault) else { return }
      worker.revokeCredential()
      scheduleEnd(number, fault, UInt64(index))
    case .pauseWorker:
      hit(fault)?.worker.pause(until: now + pause(fault))
    case .setClock:
      guard let (index, worker) = hit(fault) else { return }
      let span: Int64 = settings.clocksDriftByHours ? 6 * 3_600_000 : 600_000
      worker.setClock(offsetMilliseconds: Int64(fault.draw >> 8 & 0xFFFF_FFFF) % (2 * span) - span)
      scheduleEnd(number, fault, UInt64(index))

    case .restartBroker: rabbitmq.restart(now: now)
    case .stopBroker:
      rabbitmq.stop(now: now)
      scheduleEnd(number, fault)
    case .closeConnections:
      for connection in rabbitmq.connections { rabbitmq.closeConnection(connection, now: now) }
    case .closeChannel:
      let connections = rabbitmq.connections
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
      // Outcomes cannot be routed, and are returned.
      rabbitmq.unbind(queue: "push.results.log", exchange: "push.results", routingKey: "#", now: now)

    case .stallRedis: beginRedis(number, fault) { $0.stall() }
    case .loadRedis: beginRedis(number, fault) { $0.isLoading = true }
    case .readOnlyRedis: beginRedis(number, fault) { $0.role = .replica(host: "127.0.0.1", port: 1) }
    case .fullRedis: beginRedis(number, fault) { $0.isOutOfMemory = true }
    case .busyRedis: beginRedis(number, fault) { $0.isBusy = true }
    case .flushScripts: node(fault).flushScripts()
    case .jumpRedisClock:
      // Nodes of a cluster have separate clocks.
      let span = WorkerWorld.jumpNanosecondsMaximum / 1000
      node(fault).jumpClock(byMicroseconds: Int64(fault.draw >> 8 & 0xFFFF_FFFF) % (2 * span) - span)
    case .fewerLimits: try beginFewerLimits(number, fault)
    case .emptyRedis: node(fault).flush(now: now)
    case .crashRedis: beginRedis(number, fault) { $0.crash(forgetting: fault.nanoseconds, now: now) }
    case .rewindRedis: node(fault).forgetWrites(ofLast: fault.nanoseconds, now: now)
    case .evictRedis: node(fault).evict(count: 1 + place(fault.draw >> 8, 20), now: now)
    case .moveSlots: beginMove(number, fault)
    case .failOverRedis: failOverRedis(number, fault)

    case .failAPNs:
      try beginAPNs(
        number, fault,
        fault.draw % 2 == 0 ? "share=0.5,status=503,reason=ServiceUnavailable" : "status=500,reason=InternalServerError"
      )
    case .throttleAPNs: try beginAPNs(number, fault, "share=0.2,status=429,reason=TooManyRequests")
    case .slowAPNs: try beginAPNs(number, fault, "latency=2000-6000")
    case .goAwayAPNs where fault.draw % 2 == 0: try apns.act("goaway=all")
    case .goAwayAPNs: try beginAPNs(number, fault, "share=0.1,goaway=previous")
    case .dropAPNs: try apns.act("drop")
    case .refuseStreams: try beginAPNs(number, fault, "share=0.3,reset=7")
    case .resetStreams: try beginAPNs(number, fault, "share=0.1,reset=8,processed")
    case .silenceStreams:
      try beginAPNs(number, fault, fault.draw % 2 == 0 ? "share=0.1,silence" : "share=0.1,silence,processed")
    case .changeStreams: try beginAPNs(number, fault, "streams=1000/1/20/3,every=200")
    case .withholdWindow: try beginAPNs(number, fault, "withhold-window")
    case .ignorePings: try beginAPNs(number, fault, "no-ping-ack")
    case .deleteChannel: deleteChannel(fault)
    case .revokeKey: try beginAPNs(number, fault, "status=403,reason=InvalidProviderToken")
    case .expireToken:
      try beginAPNs(number, fault, "times=\(1 + place(fault.draw, 3)),status=403,reason=ExpiredProviderToken")
    }
  }

  private func stop(_ number: Int, _ fault: WorkerPlan.Fault, _ argument: UInt64) throws {
    switch fault.kind {
    case .silence:
      if let line = network.lines.first(where: { UInt64($0.id.number) == argument }) { network.heal(line) }
    case .refuse:
      let port = UInt16(argument)
      network.listen(port, port == WorkerWorld.rabbitmqPort ? rabbitmq : redis[Int(port - WorkerWorld.redisPort)])
    case .revokeCredential: if let worker = workers[Int(argument)] { try reload(worker, draw: 0) }
    case .setClock: workers[Int(argument)]?.setClock(offsetMilliseconds: 0)
    case .stopBroker: rabbitmq.start(now: network.now)
    case .alarm: rabbitmq.setAlarm("memory", isOn: false, now: network.now)
    case .stallRedis: redis[Int(argument)].resume(now: network.now)
    case .loadRedis: redis[Int(argument)].isLoading = false
    case .readOnlyRedis: redis[Int(argument)].role = .primary
    case .fullRedis: redis[Int(argument)].isOutOfMemory = false
    case .busyRedis: redis[Int(argument)].isBusy = false
    case .crashRedis: redis[Int(argument)].start()
    case .fewerLimits: try endFewerLimits(number, Int(argument))
    // The third node learns of it later, by asking.
    case .moveSlots: cluster?.endMove(of: Int(argument), now: network.now)
    case .failOverRedis:
      redis[Int(argument)].start()
      if let primary = redis.first(where: \.isPrimary) {
        for sentinel in sentinels { sentinel.primaries = [WorkerWorld.primary(primary.settings)] }
      }
    case .failAPNs, .throttleAPNs, .slowAPNs, .goAwayAPNs, .refuseStreams, .resetStreams, .silenceStreams,
      .changeStreams, .withholdWindow, .ignorePings, .revokeKey, .expireToken:
      apns.remove(fault: Int(argument))
    case .cut, .killWorker, .drainWorker, .reloadWorker, .restartBroker, .closeConnections, .closeChannel,
      .cancelConsumers, .moveLeader, .dropConfirms, .refusePublishes, .deleteQueue, .unbind, .flushScripts,
      .jumpRedisClock, .emptyRedis, .rewindRedis, .evictRedis, .pauseWorker, .dropAPNs, .deleteChannel:
      preconditionFailure("it has no end")
    }
  }

  private func scheduleEnd(_ number: Int, _ fault: WorkerPlan.Fault, _ argument: UInt64 = 0) {
    schedule(.end(number, argument), at: network.now + fault.nanoseconds)
  }

  /// How long a fault may last.
  private func disturbance(_ fault: WorkerPlan.Fault) -> Int64 {
    // The next confirms are lost, whenever they come, and a lane waits a minute for each.
    if fault.kind == .dropConfirms { return (settings.stormMilliseconds + settings.restMilliseconds) * 1_000_000 }
    return fault.kind == .pauseWorker ? pause(fault) : fault.nanoseconds
  }

  // MARK: - The workers

  private func pause(_ fault: WorkerPlan.Fault) -> Int64 { 20_000_000_000 + fault.nanoseconds / 4 * 5 }

  private func killWorker(_ fault: WorkerPlan.Fault) {
    guard let (index, worker) = hit(fault) else { return }
    if settings.killsAtAnyByte, fault.draw >> 32 % 3 != 0 {
      worker.die(afterBytes: Int(fault.draw >> 40 % 8192), absenceNanoseconds: fault.nanoseconds)
    } else {
      worker.kill()
      retire(index, after: fault.nanoseconds)
    }
  }

  func endHolder(_ connection: SimulatedConnectionID) {
    if settings.firstJobEnds == .connection {
      // The worker notices neither.
      if let line = network.line(connection) { network.silence(line) }
      rabbitmq.closeConnection(connection, now: network.now)
    } else if let index = workers.firstIndex(where: { $0?.owns(connection) == true }), let worker = workers[index] {
      worker.kill()
      retire(index)
    }
  }

  func ended(_ worker: SimulatedWorker) {
    auditor.ended(worker)
    channelUsers.ended(worker)
  }

  /// Starts a worker while Redis stalls: its lanes send Redis nothing until all its connections exist.
  private func beginFewerLimits(_ number: Int, _ fault: WorkerPlan.Fault) throws {
    let index = place(fault.draw >> 8, workers.count)
    guard let worker = workers[index] else { return }
    for node in redis { node.stall() }
    worker.kill()
    ended(worker)
    workers[index] = try makeWorker(index, version: WorkerWorld.overridesVersion)
    let (least, most) = (WorkerWorld.earlyNanoseconds.lowerBound, WorkerWorld.earlyNanoseconds.upperBound)
    schedule(.end(number, UInt64(index)), at: network.now + least + fault.nanoseconds % (most - least))
  }

  /// First the worker learns that the overrides are gone, then Redis answers.
  private func endFewerLimits(_ number: Int, _ index: Int) throws {
    guard index < workers.count else {
      for node in redis { node.resume(now: network.now) }
      return
    }
    if let worker = workers[index] { try reload(worker, draw: 0) }
    schedule(.end(number, UInt64(workers.count)), at: network.now + WorkerWorld.reloadNanoseconds)
  }

  // MARK: - Redis

  private func beginRedis(_ number: Int, _ fault: WorkerPlan.Fault, _ change: (SimulatedRedis) -> Void) {
    change(node(fault))
    scheduleEnd(number, fault, UInt64(place(fault.draw, redis.count)))
  }

  private func beginMove(_ number: Int, _ fault: WorkerPlan.Fault) {
    guard let cluster else { return }
    let slots = Set(node(fault).keys(now: network.now).map { SimulatedRedisSlot.of($0) }).sorted()
    guard !slots.isEmpty else { return }
    let slot = slots[place(fault.draw >> 8, slots.count)]
    cluster.beginMove(of: slot, to: (place(fault.draw, redis.count) + 1) % redis.count)
    scheduleEnd(number, fault, UInt64(slot))
  }

  /// Promotes the replica. One Sentinel learns of it later, and until then names the old primary, which may be down or up.
  private func failOverRedis(_ number: Int, _ fault: WorkerPlan.Fault) {
    guard let old = redis.firstIndex(where: \.isPrimary), redis.count == 2, redis[1 - old].isUp else { return }
    redis[1 - old].takeOver(from: redis[old], forgetting: fault.nanoseconds / 4, now: network.now)
    if fault.draw & 1 == 0 { redis[old].crash() }
    sentinels.first?.primaries = [WorkerWorld.primary(redis[1 - old].settings)]
    scheduleEnd(number, fault, UInt64(old))
  }

  // MARK: - APNs

  /// Until all faults end.
  func begin(_ trouble: Settings.Trouble) throws {
    let isOfTenant = "topic=\(SimulatedJob.stuckApp)"
    switch trouble {
    case .silent: troubleFault = try apns.add(fault: "\(isOfTenant),silence")
    case .slow: troubleFault = try apns.add(fault: "\(isOfTenant),latency=9000")
    case .refusing: troubleFault = try apns.add(fault: "\(isOfTenant),status=503,reason=ServiceUnavailable")
    case .unreachable: network.refuse(WorkerWorld.sandboxPort)
    // Once workers have declared the exchange.
    case .fullResults: break
    }
  }

  func fillResults() {
    rabbitmq.addFullQueue(
      WorkerWorld.fullQueue, exchange: "push.results", routingKey: "*.*.\(SimulatedJob.stuckApp)", now: network.now)
    network.act(rabbitmq)
  }

  func endTrouble() {
    rabbitmq.deleteQueue(WorkerWorld.fullQueue, now: network.now)
    network.act(rabbitmq)
    troubleFault.map(apns.remove)
    network.listen(WorkerWorld.sandboxPort, likeOn: WorkerWorld.productionPort)
  }

  private func deleteChannel(_ fault: WorkerPlan.Fault) {
    let channels = channelUsers.channelsOfActivities
    guard !channels.isEmpty else { return }
    let channel = channels[place(fault.draw, channels.count)]
    apns.configure { _ = $0.channels.delete(channel, of: SimulatedChannelUsers.app) }
    channelUsers.wasDeleted(channel)
  }

  private func beginAPNs(_ number: Int, _ fault: WorkerPlan.Fault, _ text: String) throws {
    scheduleEnd(number, fault, UInt64(try apns.add(fault: text)))
  }
}
