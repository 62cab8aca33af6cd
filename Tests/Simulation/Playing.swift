/// Which authority the devices talk to.
package enum AuthorityKind: String, CaseIterable, Sendable {
    /// The contract in a hundred lines.
    case model
    /// The authority's own decisions, over a storage in memory.
    case real
    /// The real one, whose every answer is compared with the model's.
    case both
}

/// Plays a seed.
///
/// - Returns: The first guarantee that was broken, or `nil`.
package func violation(
    seed: UInt64,
    events: Int = 200,
    bug: PlantedBug? = nil,
    authority: AuthorityKind = .real
) async -> Violation? {
    do {
        let schema = SimulatedApp.server
        switch authority {
        case .model:
            var world = World(seed: seed, authority: ModelAuthority(schema: schema), bug: bug)
            try await world.run(events: events)
        case .real:
            let real = RealAuthority(schema: schema)
            var world = World(seed: seed, authority: real, bug: bug)
            try await world.run(events: events)
        case .both:
            let twins = TwinAuthority(schema: schema)
            var world = World(seed: seed, authority: twins, bug: bug)
            try await world.run(events: events)
        }
        return nil
    } catch let difference as TwinAuthority.Difference {
        return Violation(
            seed: seed,
            step: difference.requests,
            guarantee: "One contract",
            detail: difference.description
        )
    } catch let violation as Violation {
        return violation
    } catch {
        return Violation(seed: seed, step: 0, guarantee: "No fault", detail: "\(error)")
    }
}
