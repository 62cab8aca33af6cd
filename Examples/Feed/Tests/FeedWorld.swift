import ExampleTerminal
import FeedApp
import FeedModel
import FeedServer
import Foundation
import Sanguine
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

/// The real server, devices of its users, and other users who are only requests.
struct FeedWorld: Sendable {
    /// The time that a look-up took the team.
    static let latency = Duration.milliseconds(200)

    let root: URL
    let server: URL
    private let admin: URL
    /// The time of the server and of all devices.
    let clock: ManualWallClock

    /// Runs a server while the body runs.
    static func with(_ body: @escaping @Sendable (FeedWorld) async throws -> Void) async throws {
        let clock = ManualWallClock()
        try await TemporaryFolder.with { root in
            var settings = ServerSettings()
            settings.http.port = 0
            try await FeedServer.with(
                folder: root.appending(path: "server"),
                settings: settings,
                logger: .errors("feed"),
                clock: clock
            ) { server in
                try await server.serve { addresses in
                    try await body(
                        FeedWorld(
                            root: root,
                            server: addresses.http,
                            admin: addresses.admin,
                            clock: clock
                        )
                    )
                }
            }
        }
    }

    /// Returns the value of one of the server's metrics.
    func metric(_ name: String) async throws -> Double {
        let request = TransportRequest(url: admin.appending(path: "metrics"))
        let answer = try await URLSessionTransport.patient.send(request)
        let lines = String(decoding: answer.body, as: UTF8.self).split(separator: "\n")
        let line = try #require(lines.first { $0.hasPrefix("\(name) ") }, "\(name)")
        return try #require(Double(line.dropFirst(name.count + 1)))
    }

    // MARK: - Devices

    func folder(_ device: String) -> URL { root.appending(path: device) }

    /// Returns the app's client on a device.
    func client(
        _ device: String = "phone",
        _ configure: (inout SanguineClient.Configuration) -> Void = { _ in }
    ) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.feed(
            server: server,
            folder: folder(device)
        )
        configuration.transport = URLSessionTransport.patient
        configuration.clock = clock
        configure(&configuration)
        return try SanguineClient(configuration)
    }

    /// Returns a client whose requests take the team's time on a clock that the test advances.
    func slowClient(
        _ recorded: RecordedNetwork,
        _ delay: ManualClock,
        taking time: Duration = latency
    ) throws -> SanguineClient {
        let network = FaultyNetwork(recorded, seed: 1, clock: delay)
        network.faults.delay = time / 2...time / 2
        return try client { ($0.transport, $0.delay) = (network, delay) }
    }

    /// Returns the screen of a user with a profile.
    @MainActor
    func screen(_ client: SanguineClient, name: String = "Defne") async throws -> FeedScreen {
        try await ProfileScreen(client).save(name: name)
        return FeedScreen(client)
    }

    // MARK: - Other users

    /// Publishes pictures with another device, so that a reader's device has none of them.
    func publish(_ drawings: [Drawing]) async throws {
        let author = try client("author")
        let own = try await screen(author)
        for (number, drawing) in drawings.enumerated() {
            try await own.publish("Picture \(number)", photo: drawing.photo)
        }
        try await author.synchronize()
        author.close()
    }

    /// Creates a user with a profile.
    func visitor(_ name: String, about: String = "") async throws -> Visitor {
        let device = "visitor-\(UUID())"
        let body = GuestRequest(
            deviceId: device,
            deviceSecret: String(repeating: "A", count: 43)
        )
        let answer = try await Visitor.send(
            server,
            "POST",
            "/v1/accounts/guest",
            token: nil,
            JSONEncoder().encode(body)
        )
        let signedIn = try JSONDecoder().decode(SignedIn.self, from: answer.body)
        let visitor = Visitor(
            server: server,
            device: device,
            token: signedIn.session.accessToken,
            profile: .new(),
            account: signedIn.account.id
        )
        let profile = Profile(id: visitor.profile, name: name, about: about)
        try await visitor.perform([SaveProfile(profile)], from: 1, at: clock.now())
        return visitor
    }

    /// Creates users with a post each, the newest last.
    func crowd(_ count: Int) async throws -> [(Visitor, Post)] {
        var crowd: [(Visitor, Post)] = []
        for number in 0..<count {
            let visitor = try await visitor("Person \(number)", about: Self.about)
            crowd.append((visitor, try await visitor.post("Post \(number)", at: clock.now())))
            // Each post has its own time, so the order is known.
            clock.advance(by: .milliseconds(1))
        }
        return crowd
    }

    /// A text as people write about themselves, of 160 characters.
    private static let about = """
        I take photographs of lighthouses, harbours and the people who work there, mostly in the \
        early morning, and print the best of them on paper that I make.
        """
}

/// A user who is nothing but requests, so that there can be many.
struct Visitor: Sendable {
    let server: URL
    let device: String
    let token: String
    let profile: RecordID
    let account: Identifier

    private static let transport = URLSessionTransport.patient

    /// Performs mutations, and expects that the server applies them.
    ///
    /// - Parameters:
    ///   - mutations: At most 100.
    ///   - first: The number of the first operation of this device.
    ///   - moment: The time of the operations.
    /// - Throws: An error of the network, or of a failed expectation.
    func perform(
        _ mutations: [any RecordMutation],
        from first: Int64,
        at moment: Timestamp
    ) async throws {
        let operations = try mutations.enumerated().map { offset, mutation in
            PushedOperation(
                id: Identifier(at: moment),
                sequence: first + Int64(offset),
                lane: mutation.lane,
                mutator: type(of: mutation).name,
                arguments: try JSONValue(encoding: mutation)
            )
        }
        let push = PushRequest(device: device, operations: operations)
        let body = try JSONEncoder().encode(push)
        let answer = try await Self.send(server, "POST", "/v1/sync/push", token: token, body)
        let results = try JSONDecoder().decode(PushAnswer.self, from: answer.body).results
        #expect(
            results.map(\.status) == mutations.map { _ in PushResult.Status.applied },
            "\(results)"
        )
    }

    /// Publishes a post as the second operation of this device.
    func post(_ text: String, at moment: Timestamp) async throws -> Post {
        let post = Post(id: .new(), text, by: profile)
        try await perform([Write(post)], from: 2, at: moment)
        return post
    }

    /// Returns the change with which a profile follows this user, or no longer does.
    func followed(by fan: RecordID, _ isFollowed: Bool = true) -> SetMark<Follow> {
        SetMark(Follow(of: profile, account.description, by: fan), isFollowed)
    }

    /// Requests a page of a list, and returns its body.
    @discardableResult
    func page(of collection: String, query: String = "") async throws -> Data {
        let path = "/v1/collections/\(collection)/records?\(query)"
        return try await Self.send(server, "GET", path, token: token).body
    }

    /// Sends a request, and expects that it succeeds.
    static func send(
        _ server: URL,
        _ method: String,
        _ path: String,
        token: String?,
        _ body: Data? = nil
    ) async throws -> TransportResponse {
        var headers = ["Content-Type": "application/json"]
        if let token { headers["Authorization"] = "Bearer \(token)" }
        let url = try #require(URL(string: path, relativeTo: server)?.absoluteURL)
        let request = TransportRequest(method: method, url: url, headers: headers, body: body)
        let answer = try await transport.send(request)
        let text = String(decoding: answer.body.prefix(400), as: UTF8.self)
        #expect((200...299).contains(answer.status), "\(text)")
        return answer
    }
}

extension ManualClock {
    /// Runs a body while waits on the clock pass, one after the other, and returns their sum.
    ///
    /// The sum is exact, however busy the machine is. Longer waits, such as timeouts, do not pass,
    /// and none does while the server has a request: otherwise the waits of others could add up to
    /// its timeout.
    func passing<Value: Sendable>(
        waitsUpTo limit: Duration = .seconds(3),
        through network: RecordedNetwork,
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> (value: Value, time: Duration) {
        let start = now
        let ended = WatchedState(false)
        let task = Task {
            defer { ended.withLock { $0 = true } }
            return try await body()
        }
        defer { task.cancel() }
        try await eventually("the end of the body", within: TestingLimits.longestWait) {
            if ended.value { return true }
            if network.inFlight == 0, let next = timeToNextWake, next <= limit {
                advance(by: next)
            }
            return false
        }
        let time = start.duration(to: now)
        return (try await task.finished("the body"), time)
    }
}

/// Runs a body as many times at once, and returns the results in any order.
func concurrently<Value: Sendable>(
    _ count: Int,
    _ body: @escaping @Sendable (Int) async throws -> Value
) async throws -> [Value] {
    try await withThrowingTaskGroup(of: Value.self) { tasks in
        for number in 0..<count { tasks.addTask { try await body(number) } }
        return try await tasks.reduce(into: []) { $0.append($1) }
    }
}

extension RecordedNetwork {
    /// A network whose live connections never open, so that no note of a change reloads a list.
    static var withoutLive: RecordedNetwork {
        let network = RecordedNetwork()
        network.hold("/v1/live", on: ManualClock())
        return network
    }

    /// Returns the number of requests for records of a collection.
    func lists(of collection: String) -> Int { count(of: "/v1/collections/\(collection)/records") }
}

extension FeedScreen {
    /// The names of the posts' authors, as far as they are known.
    var authorNames: [String?] { posts.map { author(of: $0)?[Profile.name] } }
}
