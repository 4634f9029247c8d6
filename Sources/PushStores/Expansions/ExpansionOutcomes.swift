import PushCore
import PushIO
import PushLane

/// The end of a job: every device has its outcome, or the job ended before.
extension ExpansionRunner {
  /// Every device has its outcome: publishes the job's outcome, stores that, and acknowledges the delivery.
  /// - Parameter left: called when this process is done with it, also if it must be retried later.
  func complete(_ job: AudienceID, _ delivery: ExpansionDelivery, left: @escaping () -> Void) {
    if publishingOutcomes[job] != nil {
      publishingOutcomes[job]?.append { [self] in
        if !delivery.isGone { complete(job, delivery, left: left) }
      }
      return
    }
    publishingOutcomes[job] = []
    let then = { [self] in
      delivery.finish()
      left()
      outcomePublished(job)
    }
    let later = { [self] (failure: RedisClient.Failure) in
      waitForRedis(delivery, failure.text)
      left()
      outcomePublished(job)
    }
    let refused = { [self] in
      waitForOutcome(delivery)
      left()
      outcomePublished(job)
    }
    store.progress(job) { [self] result in
      guard !delivery.isGone else { return }
      switch result {
      case .failure(let failure): later(failure)
      case .success(let progress):
        guard let progress, progress.isComplete, progress.phase != .completed else { return then() }
        store.body(job) { [self] result in
          guard !delivery.isGone else { return }
          switch result {
          case .failure(let failure): later(failure)
          case .success(nil): then()
          case .success(.some(let body)):
            let orElse = { [self] (failure: RedisClient.Failure) in
              guard let detail = unread(failure, job.scope, delivery) else { return later(failure) }
              publishOutcome(job, progress, body, detail, [], delivery, orElse: refused, then)
            }
            endActivityJob(progress, body, delivery, orElse: orElse) { [self] detail, broadcasts in
              publishOutcome(job, progress, body, detail, broadcasts, delivery, orElse: refused, then)
            }
          }
        }
      }
    }
  }

  /// What the outcome says of an activity that could not be read for as long as jobs are retried: what is wrong may be wrong for good, such as
  /// another program's value in a key. nil: it is read again.
  private func unread(
    _ failure: RedisClient.Failure, _ scope: AppScope, _ delivery: ExpansionDelivery
  ) -> String? {
    let age = loop.now.unixMilliseconds - delivery.firstSeen
    guard failure.isForeignData, age >= settings.retry.ageMaximumSeconds * 1_000 else { return nil }
    let tag = RegistryKeys(prefix: settings.prefix, scope: scope).tag
    return "what its activity shows is not known: a key under \(tag) cannot be read: \(failure.text)"
  }

  /// A job that is completed was published again: its outcome is, as long as Redis knows its summary.
  func repeatOutcome(_ delivery: ExpansionDelivery, _ step: Step) {
    store.progress(step.job) { [self] result in
      guard !delivery.isGone else { return }
      switch result {
      case .failure(let failure): again(delivery, step, failure.text)
      case .success(let progress):
        guard let progress, progress.phase == .completed else {
          delivery.finish()
          return end(step.job)
        }
        let tell = { [self] (detail: String?) in
          var job = PushJob()
          guard (try? read(delivery, into: &job)) != nil else { preconditionFailure("the step was read before") }
          let record = completed(progress, detail: detail)
          let refused = { [self] in
            waitForOutcome(delivery)
            end(step.job)
          }
          delivery.publish([outcome(record, job, delivery.metadata)], orElse: refused) { [self] in
            delivery.finish()
            end(step.job)
          }
        }
        guard step.isLeave, let id = step.activity, !progress.isDryRun else { return tell(nil) }
        // Found anew: Redis keeps no names of devices for it.
        nameOutOfReach(step, id, progress, delivery) { [self] in
          if let detail = unread($0, step.scope, delivery) { tell(detail) } else { again(delivery, step, $0.text) }
        } then: {
          tell($0)
        }
      }
    }
  }

  /// Continues what waited for the publishing of a job's outcome.
  private func outcomePublished(_ job: AudienceID) {
    for next in publishingOutcomes.removeValue(forKey: job) ?? [] { next() }
  }

  private func publishOutcome(
    _ audience: AudienceID, _ progress: ExpansionProgress, _ body: [UInt8], _ detail: String?, _ broadcasts: [Publish],
    _ delivery: ExpansionDelivery, orElse refused: @escaping () -> Void, _ then: @escaping () -> Void
  ) {
    var job = PushJob()
    // It was parsed when it came. If this version refuses it, it still gets its outcome.
    _ = try? read(body, progress.metadata, into: &job)
    let record = completed(progress, detail: detail)
    delivery.publish(broadcasts + [outcome(record, job, progress.metadata)], orElse: refused) { [self] in
      counters.completed += 1
      untilStored(delivery, { [store] in store.finish(audience, then: $0) }, then: then)
    }
  }

  private func completed(_ progress: ExpansionProgress, detail: String?) -> OutcomeRecord {
    var record = OutcomeRecord(
      outcome: .completed, attempts: 0, enqueuedAt: progress.metadata.enqueuedAt,
      receivedAt: progress.metadata.firstSeen ?? progress.begun, sentAt: nil,
      completedAt: progress.ended ?? loop.now.unixMilliseconds)
    record.summary = progress.summary
    record.isCancelled = progress.isCancelled
    let details = [progress.lack, detail].compactMap(\.self)
    record.detail = details.isEmpty ? nil : details.joined(separator: "; ")
    return record
  }

  /// Retries until Redis has stored it: otherwise the outcome would be published again.
  func untilStored(
    _ delivery: ExpansionDelivery, _ change: @escaping (@escaping ExpansionStore.Then<Void>) -> Void,
    then: @escaping () -> Void
  ) {
    change { [self] result in
      guard !delivery.isGone else { return }
      if case .success = result { return then() }
      schedule(afterMilliseconds: ExpansionRunner.finishMilliseconds) { [self] in
        untilStored(delivery, change, then: then)
      }
    }
  }

  func outcome(
    _ record: OutcomeRecord, _ job: borrowing PushJob, _ metadata: MessageMetadata
  ) -> Publish {
    let apnsID = UUIDValue.apnsID(for: job, target: nil)
    var body: [UInt8] = []
    var routingKey: [UInt8] = []
    writer.append(record, of: job, target: nil, apnsID: apnsID, to: &body)
    OutcomeWriter.appendRoutingKey(record.outcome, of: job, to: &routingKey)
    return Publish(target: .outcome(routingKey: routingKey, apnsID: apnsID), body: body, metadata: metadata)
  }
}
