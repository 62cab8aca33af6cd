import AsyncHTTPClient
import Foundation
import HostileUpstream
import NIOHTTP1
import Sanguine
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

/// Streams of a real server that are cut as planned, in rounds that end with a stop of the server.
///
/// Every second stop waits for the remaining runs; the others cut them short.
struct InvoiceGame: Sendable {
    /// A stream that was read as far as its plan says.
    struct Played: Sendable {
        let plan: InvoicePlan
        /// The key of its call.
        var key: String
        /// The events that were read.
        var seen = SeenStream()
        /// The parts that the client delivered to the app.
        var given: [String] = []
        /// Whether the server's stop waited for it.
        var hasTime: Bool

        /// The number of parts that were read.
        var parts: Int { max(seen.parts, given.count) }
    }

    /// A stream and the events that its key returns later.
    struct Found: Sendable {
        let played: Played
        let end: SeenStream
    }

    /// The number of concurrent streams.
    private static let atOnce = 48
    /// The number of streams per round, between two stops.
    private static let perRound = 75
    private static let guests = 8
    private static let grant: Int64 = 100_000_000

    let upstream: HostileUpstream

    /// Plays all streams.
    func play(_ plans: [InvoicePlan], _ folder: URL) async throws -> [Played] {
        var played: [Played] = []
        let perRound = max(Self.perRound, plans.count / 24)
        for (round, start) in stride(from: 0, to: plans.count, by: perRound).enumerated() {
            let part = Array(plans[start..<min(start + perRound, plans.count)])
            played += try await play(part, hasTime: round % 2 == 0, folder)
        }
        return played
    }

    /// Plays the streams of one server, and stops it while some streams are still read.
    private func play(
        _ plans: [InvoicePlan],
        hasTime: Bool,
        _ folder: URL
    ) async throws -> [Played] {
        let last = plans.filter { $0.cut == .stop }
        let others = plans.filter { $0.cut != .stop }
        let (played, reading) = try await withServer(folder, hasTime: hasTime) { port, guests in
            let api = API(port: port)
            let played = try await concurrently(others.count, atOnce: Self.atOnce) { number in
                let plan = others[number]
                let guest = guests[plan.number % Self.guests]
                return try await play(plan, hasTime, port, guest)
            }
            let arrived = Watched(0)
            let reading = last.map { plan in
                let guest = guests[plan.number % Self.guests]
                return Task { try await readOn(plan, hasTime, api, guest, arrived) }
            }
            try await arrived.reach(last.count, "streams that the stop interrupts") { $0 }
            if hasTime { for plan in last { upstream.acknowledgeAll(of: plan.id) } }
            return (played, reading)
        }
        var cut: [Played] = []
        for reader in reading { cut.append(try await reader.finished()) }
        return played + cut
    }

    /// Requests each stream again after its end, by its key and by the same request.
    func find(_ played: [Played], _ folder: URL) async throws -> [Found] {
        try await withServer(folder, hasTime: true) { port, guests in
            let api = API(port: port)
            let found = try await concurrently(played.count, atOnce: Self.atOnce) { number in
                let stream = played[number]
                let guest = guests[stream.plan.number % Self.guests]
                return Found(played: stream, end: try await end(of: stream, api, guest))
            }
            for (number, guest) in guests.enumerated() {
                let own = found.filter { $0.played.plan.number % Self.guests == number }
                let balance = try await api.balance(of: guest)
                #expect(balance.held == 0)
                #expect(balance.available == Self.grant - own.reduce(0) { $0 + $1.end.charged })
            }
            return found
        }
    }

    // MARK: - One stream

    private func play(
        _ plan: InvoicePlan,
        _ hasTime: Bool,
        _ port: Int,
        _ guest: API.Guest
    ) async throws -> Played {
        let api = API(port: port)
        var played = Played(plan: plan, key: plan.id, hasTime: hasTime)
        switch plan.cut {
        case .app where plan.isDrained:
            return try await playApp(plan, DrainedAsk(plan.question), port, guest, &played)
        case .app:
            return try await playApp(plan, StoppedAsk(plan.question), port, guest, &played)
        case .none, .upstream, .stop:
            try await read(&played, api, guest)
            #expect(played.seen.ends == 1, "\(plan)")
        case .reader:
            try await read(&played, api, guest) { $0.parts < plan.read }
            try await leave(&played, api, guest)
        case .cancel:
            let isCancelled = Watched(false)
            try await read(&played, api, guest) { seen in
                guard seen.parts >= plan.read, !isCancelled.value else { return true }
                isCancelled.update { $0 = true }
                await cancel(plan, api, guest)
                return true
            }
            #expect(played.seen.ends == 1, "\(plan)")
        }
        return played
    }

    /// Reads the stream and acknowledges the parts to the upstream, up to the given number.
    private func read(
        _ played: inout Played,
        _ api: API,
        _ guest: API.Guest,
        atMost most: Int = .max,
        while goOn: (SeenStream) async -> Bool = { _ in true }
    ) async throws {
        let plan = played.plan
        let request = try api.streamed(plan.function, plan.question, key: plan.id, as: guest)
        let status = await api.read(request, into: &played.seen) { seen in
            upstream.acknowledge(min(seen.parts, most), of: plan.id)
            return await goOn(seen)
        }
        #expect(status == 200, "\(plan)")
    }

    /// Cancels a call that runs or has just ended.
    private func cancel(_ plan: InvoicePlan, _ api: API, _ guest: API.Guest) async {
        let answer = try? await api.send(.DELETE, "/v1/calls/\(plan.id)", token: guest.token)
        #expect(answer?.status == 200, "\(plan)")
    }

    /// Lets a stream without a reader run to its end or stop, and reads it again if the plan says
    /// so.
    private func leave(_ played: inout Played, _ api: API, _ guest: API.Guest) async throws {
        let plan = played.plan
        if plan.isDrained { upstream.acknowledgeAll(of: plan.id) }
        if plan.returns {
            let request = api.streamed(key: played.key, as: guest, after: played.seen)
            await api.read(request, into: &played.seen) { seen in
                upstream.acknowledge(seen.parts, of: plan.id)
                return true
            }
            #expect(played.seen.ends == 1, "\(plan)")
        } else {
            let key = played.key
            let answer = try await api.end {
                try await api.send(.GET, "/v1/calls/\(key)", token: guest.token)
            }
            if plan.isDrained { #expect(answer.status == 200, "\(plan)") }
        }
    }

    /// Reads until the server's stop ends the stream, but acknowledges no more than the plan says.
    private func readOn(
        _ plan: InvoicePlan,
        _ hasTime: Bool,
        _ api: API,
        _ guest: API.Guest,
        _ arrived: Watched<Int>
    ) async throws -> Played {
        var played = Played(plan: plan, key: plan.id, hasTime: hasTime)
        let hasArrived = Watched(false)
        try await read(&played, api, guest, atMost: plan.read) { seen in
            guard seen.parts >= plan.read, !hasArrived.value else { return true }
            hasArrived.update { $0 = true }
            arrived.update { $0 += 1 }
            return true
        }
        if !hasArrived.value { arrived.update { $0 += 1 } }
        return played
    }

    // MARK: - An app

    /// Reads with a client that the app closes, and then with another client if the plan says so.
    private func playApp<Call: FunctionCall>(
        _ plan: InvoicePlan,
        _ call: Call,
        _ port: Int,
        _ guest: API.Guest,
        _ played: inout Played
    ) async throws -> Played where Call.Output == String {
        let (number, read) = (plan.number % Self.guests, plan.read)
        let (key, given) = try await TemporaryFolder.with { folder in
            try Self.identity(number).write(to: folder.appending(path: "device-identity.json"))
            let first = try SanguineClient(.of(port: port, folder: folder))
            let stream = try first.stream(call)
            var given: [String] = []
            var parts = stream.makeAsyncIterator()
            while given.count < read, let part = try await parts.next() {
                given.append(part)
                upstream.acknowledge(given.count, of: plan.id)
            }
            first.close()
            if plan.isDrained { upstream.acknowledgeAll(of: plan.id) }
            guard plan.returns else { return (stream.key, given) }
            let second = try SanguineClient(.of(port: port, folder: folder))
            defer { second.close() }
            var rest = try second.stream(of: Call.self, key: stream.key).makeAsyncIterator()
            given = []
            do {
                while let part = try await rest.next() {
                    given.append(part)
                    upstream.acknowledge(given.count, of: plan.id)
                }
            } catch {
                // A stopped run has its own end.
                #expect(!plan.isDrained, "\(plan): \(error)")
            }
            return (stream.key, given)
        }
        played.key = key
        played.given = given
        let api = API(port: port)
        _ = try await api.end {
            try await api.send(.GET, "/v1/calls/\(key)", token: guest.token)
        }
        return played
    }

    // MARK: - After the game

    /// Returns the end of a stream, which every repetition returns too.
    private func end(
        of played: Played,
        _ api: API,
        _ guest: API.Guest
    ) async throws -> SeenStream {
        let plan = played.plan
        var found = SeenStream()
        let status = await api.read(api.streamed(key: played.key, as: guest), into: &found)
        #expect(status == 200 && found.ends == 1, "\(plan): \(found.text)")
        #expect(found.ids == found.events.indices.map { "\($0)" }, "\(plan)")
        #expect(found.events.starts(with: played.seen.events), "\(plan)")
        #expect(found.answer.hasPrefix(played.given.joined()), "\(plan)")
        // A call that failed without a charge would run again.
        guard found.charged > 0 || found.answer != "" else { return found }
        var repeated = SeenStream()
        let again = try api.streamed(plan.function, plan.question, key: played.key, as: guest)
        await api.read(again, into: &repeated)
        #expect(repeated == found, "\(plan)")
        if plan.cut == .cancel { await cancel(plan, api, guest) }
        return found
    }

    private func withServer<Value: Sendable>(
        _ folder: URL,
        hasTime: Bool,
        _ body: @escaping @Sendable (Int, [API.Guest]) async throws -> Value
    ) async throws -> Value {
        var settings = ServerSettings()
        settings.upstream.url = upstream.url
        settings.accounts.grant = Int(Self.grant)
        settings.limits.shutdownGrace = hasTime ? .seconds(20) : .milliseconds(50)
        settings.openAI.function = ""
        settings.functions = [DrainedAsk.rules, StoppedAsk.rules].enumerated().map { place, rules in
            FunctionSetting(
                name: place == 0 ? DrainedAsk.name : StoppedAsk.name,
                kind: .upstream,
                rules: rules,
                maxOutputTokens: InvoicePlan.longest
            )
        }
        return try await LocalServer.with(folder: folder, settings: settings) { server in
            let guests = try await concurrently(Self.guests) { number in
                try await server.api.guest(Self.device(number))
            }
            return try await body(server.port, guests)
        }
    }

    private static func device(_ number: Int) -> String { "a-device-of-guest-\(number)" }

    /// The file with the guest's device identity, for a client's folder.
    private static func identity(_ number: Int) throws -> Data {
        let secret = String(repeating: "A", count: 43)
        return try JSONEncoder().encode(
            ["deviceId": device(number), "deviceSecret": secret]
        )
    }
}
