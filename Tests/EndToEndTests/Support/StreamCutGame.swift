import Foundation
import HostileUpstream
import NIOHTTP1
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

/// Streams of a real server that are cut at random bytes and resumed, across restarts of the
/// server.
///
/// There are three functions: a plain one, one with shared, cached answers, and one whose first
/// upstream fails. Each account has two sessions, like two devices, and either resumes a stream, by
/// the same request or by its key.
struct StreamCutGame: Sendable {
    /// A stream with its readings.
    struct Stream: Sendable {
        let number: Int
        /// The number of its account.
        let account: Int
        let function: String
        var question: String
        /// The readings, each from the beginning.
        ///
        /// The last one may be incomplete.
        var readings = [SeenStream()]
        /// The number of cuts.
        var cuts = 0
        /// The statuses that other accounts got for its key.
        var foreign: [Int?] = []

        var key: String { "stream-\(number)" }

        /// Whether it begins at the end of the second round and is ended by that round's stop.
        var isLate: Bool { number % 6 == 5 }

        /// Whether it is cut in the round.
        func isCut(in round: Int) -> Bool { round >= (isLate ? 2 : number % 3) }
    }

    private static let atOnce = 32
    private static let accounts = 4
    private static let functions = ["own", "kept", "away"]

    let cuts: Int
    let rounds: Int
    let seed: UInt64

    /// Plays all rounds, each with its own server, and then reads each stream at once.
    func play(_ folder: URL) async throws -> (played: [Stream], whole: [SeenStream]) {
        try await HostileUpstream.with({ _ in .refuses(status: 503) }) { broken in
            try await HostileUpstream.with(Self.pace) { upstream in
                var streams = (0..<max(24, cuts / 25)).map { stream($0) }
                let budget = (cuts + streams.count * rounds - 1) / (streams.count * rounds)
                for round in 0..<rounds {
                    let settings = settings(upstream.url, broken.url, hasTime: round % 2 == 0)
                    streams = try await play(streams, round, budget, settings, folder)
                }
                let settings = settings(upstream.url, broken.url, hasTime: true)
                let all = streams
                let whole = try await withServer(settings, folder) { api, sessions in
                    try await concurrently(all.count, atOnce: Self.atOnce) { number in
                        var seen = SeenStream()
                        let stream = all[number]
                        let session = sessions[stream.account][0]
                        await api.read(api.streamed(key: stream.key, as: session), into: &seen)
                        return seen
                    }
                }
                return (streams, whole)
            }
        }
    }

    /// Answers arrive at once, in a moment, or take longer than the server runs.
    private static func pace(_ request: HostileUpstream.Request) -> HostileUpstream.Fault {
        if request.id.hasPrefix("late") { return .slow(.milliseconds(50)) }
        return request.number % 3 == 0 ? .none : .slow(.milliseconds(1))
    }

    private func stream(_ number: Int) -> Stream {
        var random = SplitMix64(seed: seed &+ UInt64(number) &* 0x9E37_79B9)
        let function = Self.functions[number % 3]
        let words = Int.random(in: 1...300, using: &random)
        // Three consecutive streams of three accounts request the same answer.
        let question = function == "kept" ? "id=kept-\(number / 9) words=80" : nil
        var stream = Stream(
            number: number,
            account: number % Self.accounts,
            function: function,
            question: question ?? "id=own-\(number) words=\(words)"
        )
        if stream.isLate { stream.question = "id=late-\(number) words=100" }
        return stream
    }

    /// Cuts each stream several times, and stops the server while some are read.
    private func play(
        _ streams: [Stream],
        _ round: Int,
        _ budget: Int,
        _ settings: ServerSettings,
        _ folder: URL
    ) async throws -> [Stream] {
        let (played, reading) = try await withServer(settings, folder) { api, sessions in
            let played = try await concurrently(streams.count, atOnce: Self.atOnce) { number in
                var stream = streams[number]
                var random = SplitMix64(seed: seed ^ UInt64(round << 32 | number))
                // All have begun by the third round, and are cut as often as the others.
                guard stream.isCut(in: round) else { return stream }
                while stream.cuts < budget * (round + 1) {
                    let limit = Int.random(in: 0...1_500, using: &random)
                    try await read(&stream, api, sessions, &random, limit: limit)
                }
                return stream
            }
            let last = played.indices.filter { number in
                let stream = played[number]
                return stream.isLate ? round == 1 : number % 4 == 0 && stream.isCut(in: round)
            }
            let arrived = Watched(0)
            let reading = last.map { number in
                let stream = played[number]
                let seed = seed &+ UInt64(number)
                return Task {
                    var (stream, random) = (stream, SplitMix64(seed: seed))
                    try await read(&stream, api, sessions, &random) { arrived.update { $0 += 1 } }
                    return stream
                }
            }
            try await arrived.reach(last.count, "readers") { $0 }
            return (played, reading)
        }
        var streams = played
        for reader in reading {
            let stream = try await reader.finished()
            streams[stream.number] = stream
        }
        return streams
    }

    /// Resumes the stream, and reads to its end or up to the given number of bytes.
    private func read(
        _ stream: inout Stream,
        _ api: API,
        _ sessions: [[API.Guest]],
        _ random: inout SplitMix64,
        limit: Int = .max,
        onArrival: @Sendable () -> Void = {}
    ) async throws {
        var seen = stream.readings.removeLast()
        let device = sessions[stream.account].randomElement(using: &random)
        let session = try #require(device)
        let isFirst = stream.cuts == 0 && stream.readings.isEmpty
        let request =
            isFirst || Bool.random(using: &random)
            ? try api.streamed(
                stream.function,
                stream.question,
                key: stream.key,
                as: session,
                after: seen
            ) : api.streamed(key: stream.key, as: session, after: seen)
        let hasArrived = Watched(false)
        let status = await api.read(request, into: &seen, limit: limit) { seen in
            guard !seen.events.isEmpty, !hasArrived.value else { return true }
            hasArrived.update { $0 = true }
            onArrival()
            return true
        }
        if !hasArrived.value { onArrival() }
        #expect(status == 200, "seed \(seed), \(stream.key)")
        // A reading without a limit ends with its server.
        if limit < .max, Int.random(in: 0..<8, using: &random) == 0 {
            let other = sessions[(stream.account + 1) % Self.accounts][0]
            var nothing = SeenStream()
            let foreign = api.streamed(key: stream.key, as: other, after: seen)
            stream.foreign.append(await api.read(foreign, into: &nothing))
            #expect(nothing.events.isEmpty)
        }
        seen.cut()
        stream.readings.append(seen)
        if seen.ends > 0 {
            stream.readings.append(SeenStream())
        } else {
            stream.cuts += 1
        }
    }

    // MARK: - The server

    private func settings(_ url: String, _ broken: String, hasTime: Bool) -> ServerSettings {
        var settings = ServerSettings()
        settings.upstream.url = url
        settings.upstreams = [UpstreamSetting(name: "broken", url: broken)]
        settings.accounts.grant = 1_000_000
        settings.limits.shutdownGrace = hasTime ? .seconds(20) : .milliseconds(50)
        settings.openAI.function = ""
        settings.functions = Self.functions.map { name in
            var rules = FunctionRules(streams: true, limits: FunctionLimits(drains: 1_000))
            if name == "kept" { rules.cache = .forever.public(sharing: "question") }
            return FunctionSetting(
                name: name,
                kind: .upstream,
                rules: rules,
                upstreams: name == "away" ? ["broken", "default"] : ["default"]
            )
        }
        return settings
    }

    /// Runs a server, with two sessions of each account.
    private func withServer<Value: Sendable>(
        _ settings: ServerSettings,
        _ folder: URL,
        _ body: @escaping @Sendable (API, [[API.Guest]]) async throws -> Value
    ) async throws -> Value {
        try await LocalServer.with(folder: folder, settings: settings) { server in
            let sessions = try await concurrently(Self.accounts) { number in
                let device = "a-device-of-account-\(number)"
                return [try await server.api.guest(device), try await server.api.guest(device)]
            }
            return try await body(server.api, sessions)
        }
    }
}
