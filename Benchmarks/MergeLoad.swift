import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import SanguineModel

/// Guests with a few notes, each of which is merged into an account by a sign-in with its password.
///
/// The passwords are hashed at the lowest cost, so that the merge itself is measured. The accounts
/// and the guests are created before.
struct MergeLoad: Sendable {
    /// The number of notes of a guest.
    static let notes = 5

    /// The number of accounts: the server sends 30 codes an hour to an address, in all rounds.
    private static let accounts = 4
    /// The number of guests of an account, at most the number that can be merged into one.
    private static let guests = 90
    /// The number of concurrent merges: an account may have five sign-ins that have not succeeded.
    private static let atOnce = 4
    private static let password = "a password for benchmarks"

    let port: Int
    /// A text that is different for each measurement.
    let run: String

    /// Creates accounts and guests, and measures the merges.
    func measure() async throws -> LoadGenerator.Outcome {
        for account in 0..<Self.accounts { try await register(account) }
        let tokens = try await all(Self.accounts * Self.guests) { try await guest($0) }
        let clock = ContinuousClock()
        let (start, startTime) = (clock.now, Self.processorTime)
        let latencies = try await all(tokens.count) { number in
            let start = clock.now
            try await merge(tokens[number], into: number % Self.accounts)
            return (clock.now - start) / .milliseconds(1)
        }
        let seconds = (clock.now - start) / .seconds(1)
        let time = Self.processorTime - startTime
        return LoadGenerator.Outcome(
            answered: latencies.count,
            failed: 0,
            perSecond: Double(latencies.count) / seconds,
            processorTime: time / Double(latencies.count),
            serverTime: .nan,
            latencies: latencies.sorted()
        )
    }

    /// The processor time of this process, in microseconds.
    private static var processorTime: Double { Double(clock()) }

    private func email(_ account: Int) -> String { "\(run.lowercased())-\(account)@example.org" }

    private func register(_ account: Int) async throws {
        let token = try await signIn("registered-\(run)-\(account)")
        let address = email(account)
        let body = UpgradeRequest(email: address, password: Self.password)
        try await post("/v1/accounts/upgrade", body, token)
        // The server writes due e-mails every second.
        for _ in 0..<200 {
            if let code = code(for: address) {
                try await post("/v1/accounts/verify", CodeRequest(code: code), token)
                return
            }
            try await Task.sleep(for: .milliseconds(50))
        }
        throw BenchmarkError.noServer("it sends no e-mails")
    }

    private func code(for address: String) -> String? {
        let folder = BenchmarkedServer.mail
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
        for name in names where name.hasSuffix(".eml") {
            let file = folder.appending(path: name)
            guard let text = try? String(contentsOf: file, encoding: .utf8),
                text.contains("To: <\(address)>"),
                let found = text.firstMatch(of: #/(\d{4}) (\d{4})/#)
            else { continue }
            return String(found.1 + found.2)
        }
        return nil
    }

    /// Creates a guest with notes, and returns its token.
    private func guest(_ number: Int) async throws -> String {
        let device = "merged-\(run)-\(number)"
        let token = try await signIn(device)
        let operations = (0..<Self.notes).map { note in
            let id = Identifier(at: SystemWallClock().now())
            return PushedOperation(
                id: id,
                sequence: Int64(note + 1),
                lane: "notes",
                mutator: "record.create",
                arguments: .object([
                    "collection": "notes", "id": .string(id.description),
                    "fields": .object(["text": .string("note \(note) of guest \(number)")]),
                ])
            )
        }
        try await post("/v1/sync/push", PushRequest(device: device, operations: operations), token)
        return token
    }

    private func merge(_ token: String, into account: Int) async throws {
        let body = SessionRequest(email: email(account), password: Self.password)
        let signedIn = try await post("/v1/sessions", body, token)
        let merged = try JSONDecoder().decode(SignedIn.self, from: signedIn).merged
        guard merged?.records == Self.notes else { throw BenchmarkError.refused(1) }
    }

    private func signIn(_ device: String) async throws -> String {
        let secret = String(repeating: "A", count: 43)
        let body = GuestRequest(deviceId: device, deviceSecret: secret)
        let answer = try await post("/v1/accounts/guest", body, nil)
        return try JSONDecoder().decode(SignedIn.self, from: answer).session.accessToken
    }

    // MARK: - Requests

    /// Sends a request, and returns the body of a successful response.
    @discardableResult
    private func post(
        _ path: String,
        _ body: some Encodable,
        _ token: String?
    ) async throws -> Data {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)\(path)")
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        if let token { request.headers.add(name: "Authorization", value: "Bearer \(token)") }
        request.body = .bytes(ByteBuffer(bytes: try JSONEncoder().encode(body)))
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(30))
        let content = try await response.body.collect(upTo: 1 << 20)
        guard (200..<300).contains(response.status.code) else { throw BenchmarkError.refused(1) }
        return Data(content.readableBytesView)
    }

    /// Runs the body for each number, a few at a time, and returns the results in order.
    private func all<Value: Sendable>(
        _ count: Int,
        _ body: @escaping @Sendable (Int) async throws -> Value
    ) async throws -> [Value] {
        try await withThrowingTaskGroup(of: (Int, Value).self) { group in
            var values: [Int: Value] = [:]
            for number in 0..<count {
                if number >= Self.atOnce, let (done, value) = try await group.next() {
                    values[done] = value
                }
                group.addTask { (number, try await body(number)) }
            }
            for try await (number, value) in group { values[number] = value }
            return (0..<count).compactMap { values[$0] }
        }
    }
}
