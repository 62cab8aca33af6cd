import Foundation
import SanguineModel

extension SanguineClient {
    /// The zone in which the user's days begin and end, an IANA name: `Europe/Berlin`.
    ///
    /// What ``setTimeZone(_:)`` set last for this user, in this process or an earlier one;
    /// otherwise the configuration's, which is the device's when the client is created.
    public var timeZone: String { zone.current.identifier }

    /// Sets the zone in which the user's days begin and end, and keeps it until they sign out.
    ///
    /// If it is another day there, values that are fresh until midnight are stale at once, and
    /// those that are observed are fetched.
    ///
    /// The app decides: the client follows neither the device's zone nor the account's, because a
    /// daily page that changes while its reader flies is right for one app and wrong for another.
    ///
    /// - Throws: ``SanguineError/problem(_:)`` with `invalid_content` if there is no zone of that
    ///   name; ``SanguineError/userChanged`` if the user is another one meanwhile. Nothing changes
    ///   then.
    public func setTimeZone(_ name: String) throws(SanguineError) {
        try zone.set(name, in: queries.authorizer.epoch)
        EventWiring.apply(zone, to: queries, events)
    }

    /// Lets each part know when the user changes, and has fetched again what events make stale.
    func connectParts() {
        // Captured one by one: a session that held its client would keep it for ever.
        session.onChange {
            [queries, pages, ranges, balance, sync, mutations, metrics, zone, events] epoch in
            queries.adopt(epoch)
            pages.userChanged()
            ranges.adopt(epoch)
            balance.adopt(epoch)
            sync.adopt(epoch)
            mutations.adopt(epoch)
            metrics.adopt(epoch)
            if zone.adopt(epoch) { EventWiring.apply(zone, to: queries, events) }
        }
        EventWiring.connect(events, queries, balance)
        mutations.start()
        sync.start()
    }

    /// What keeps records, outbox and feed for a client.
    static func keeper(
        _ configuration: Configuration,
        _ call: ServerCall,
        _ session: SessionKeeper,
        _ store: ClientStore,
        _ turn: MainTurn
    ) -> SyncKeeper {
        let environment = SyncEnvironment(configuration, turn: turn) { [weak store] reason in
            store?.report(failure: reason)
        }
        let network = SyncNetwork(
            call: call,
            lifecycle: configuration.lifecycle,
            connectivity: configuration.connectivity
        ) { () throws(SanguineError) in try session.deviceId() }
        return SyncKeeper(
            environment: environment,
            network: configuration.server == nil ? nil : network,
            epoch: call.authorizer.epoch
        )
    }
}

/// What keeps queries fresh by itself, put together.
enum EventWiring {
    /// Has the zone that counts now kept to; of two threads that do so neither leaves an old one.
    static func apply(_ stored: StoredZone, to queries: QueryCache, _ events: EventKeeper) {
        var zone: TimeZone
        repeat {
            zone = stored.current
            queries.zone = zone
            events.zoneIs(zone)
        } while zone != stored.current
    }

    /// Connects the keeper of events with those who fetch.
    static func connect(_ events: EventKeeper, _ queries: QueryCache, _ balance: BalanceKeeper) {
        let key = Query<Balance>.balance.key
        let ofBalance = Query<Balance>.balance.policy.refetchEvents
        events.start { [weak queries, weak balance] effect in
            if !effect.events.isEmpty {
                queries?.sweep()
                queries?.invalidate(event: effect.events)
            }
            if !effect.events.isDisjoint(with: ofBalance) { balance?.invalidate() }
            for polled in effect.polls {
                if polled == key {
                    balance?.poll()
                } else {
                    queries?.refetch(polled)
                }
            }
        }
        queries.onObserved { [weak events] key, policy, isObserved in
            let (polling, followsDays) = (policy.polling, policy.followsDays)
            guard polling != nil || followsDays else { return }
            if isObserved {
                events?.observed(key, polling: polling, followsDays: followsDays)
            } else {
                events?.unobserved(key, polling: polling, followsDays: followsDays)
            }
        }
        balance.onObserved { [weak events] isObserved, polling in
            if isObserved {
                events?.observed(key, polling: polling, followsDays: false)
            } else {
                events?.unobserved(key, polling: polling, followsDays: false)
            }
        }
    }
}

extension Policy {
    /// Whether values cease to be fresh when the user's day ends.
    var followsDays: Bool { freshness == .untilMidnight || refetchEvents.contains(.midnight) }
}
