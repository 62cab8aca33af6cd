import Foundation
import HostileUpstream
import Sanguine
import SanguineModel
import SanguineTesting
import TestSupport

@testable import SanguineCommand

/// Calls in the threads of one account, from two devices and from other callers, while processes
/// die.
struct ThreadKillGame: Sendable {
    /// The process that is killed.
    enum Victim: Hashable, Sendable {
        case server
        case client(Int)
    }

    /// A question of a device: `sanguine ask --thread`.
    struct Asked: Sendable {
        let question: String
        /// Whether the command ended well; otherwise it was killed, or its server was.
        let isAnswered: Bool
    }

    static let grant: Int64 = 100_000_000
    static let devices = 2
    /// The number of threads that all callers share; a fourth of the calls begin others.
    private static let threads = 6
    /// The largest number of calls of one caller between two kills.
    private static let callsAtOnce = 8

    private static let configuration = """
        accounts:
          grant: \(grant)
        functions:
          ask:
            kind: upstream
            perMillionInput: 0
            perMillionOutput: 1000000
            maxOutputTokens: 60
            keepsHistory: true
            history:
              messages: 0
          free:
            kind: upstream
            price: 0
            keepsHistory: true
            history:
              messages: 0
        """

    let folder: URL
    let upstream: HostileUpstream
    private(set) var random: SplitMix64
    private let shared: [Identifier]
    /// The calls that were sent, with their ends as far as they arrived.
    private(set) var calls: [(call: ThreadCall, answer: ThreadCall.Answer?)] = []
    private(set) var asked: [Asked] = []
    private(set) var kills: [Victim: Int] = [:]
    private var count = 0
    /// The port of all servers; 0 for the first one.
    private var port = 0

    var data: URL { folder.appending(path: "data") }

    private var file: URL { folder.appending(path: "sanguine.yaml") }

    /// The folder of a device.
    func device(_ number: Int) -> URL { folder.appending(path: "device-\(number)") }

    /// Starts the account of the first device, which all others join.
    init(in folder: URL, seed: UInt64, upstream: HostileUpstream) async throws {
        (self.folder, self.upstream) = (folder, upstream)
        var random = SplitMix64(seed: seed)
        shared = (0..<Self.threads).map { _ in
            Identifier(at: SystemWallClock().now(), using: &random)
        }
        self.random = random
        try Data(Self.configuration.utf8).write(to: file)
        let (first, port) = try await withServer { [self] server in
            let port = server.port
            let first = "id=first words=1"
            return (try await ask(first, shared[0], 0, isStreamed: false, port), port)
        }
        self.port = port
        guard first.isAnswered else { throw Unexpected("The first device has no answer.") }
        asked.append(first)
        for number in 1...Self.devices {
            try SharedIdentity.copy(from: device(0), to: device(number))
        }
    }

    /// Runs the server while the body runs.
    func withServer<Value: Sendable>(
        _ body: @Sendable (ServeProcess) async throws -> Value
    ) async throws -> Value {
        try await ServeProcess.with(
            data: data,
            port: port,
            arguments: ["--upstream", upstream.url, "--config", file.path],
            body
        )
    }

    // MARK: - Killing

    /// Lets all callers call until a random moment, and kills a process then.
    mutating func kill() async throws {
        let victim: Victim =
            switch Int.random(in: 0..<4, using: &random) {
            case 0: .client(0)
            case 1: .client(1)
            default: .server
            }
        kills[victim, default: 0] += 1
        let moment = Duration.milliseconds(Int.random(in: 0...1_200, using: &random))
        let plans = ThreadCall.Kind.allCases.map { plan($0) }
        let questions = (0..<Self.devices).map { plan(device: $0) }
        let (played, asked) = try await withServer { [self] server in
            try await play(server, victim, at: moment, plans, questions)
        }
        calls += played
        self.asked += asked
    }

    private func play(
        _ server: ServeProcess,
        _ victim: Victim,
        at moment: Duration,
        _ plans: [[ThreadCall]],
        _ questions: [[Question]]
    ) async throws -> ([(call: ThreadCall, answer: ThreadCall.Answer?)], [Asked]) {
        let guest = try await server.api.guest(of: device(0))
        let isOver = Watched(false)
        let deaths = questions.map { _ in Watched(false) }
        let killer = Task {
            // The kill comes at a random time, at any point of the server's work.
            try await Task.sleep(for: moment)  // tidy: allow sleeping-test: a random time.
            isOver.update { $0 = true }
            switch victim {
            case .server:
                server.tool.signal(SIGKILL)
                // Their calls stay unanswered, and their commands would try again.
                for death in deaths { death.update { $0 = true } }
            case .client(let number): deaths[number].update { $0 = true }
            }
        }
        async let asked = concurrently(questions.count) { device in
            try await ask(questions[device], device, server.port, until: isOver, deaths[device])
        }
        let played = try await concurrently(plans.count) { number in
            try await send(plans[number], to: server.api, as: guest, until: isOver)
        }
        let all = try await (played.flatMap { $0 }, asked.flatMap { $0 })
        try await killer.finished("the kill")
        switch victim {
        case .server:
            let status = try await server.tool.ended().status
            guard status == -SIGKILL else { throw Unexpected("The server ended with \(status).") }
        case .client:
            let status = try await server.stop().status
            guard status == 0 else { throw Unexpected("The server stopped with \(status).") }
        }
        return all
    }

    /// Sends calls one after the other, until one breaks or a process is killed.
    private func send(
        _ plan: [ThreadCall],
        to api: API,
        as guest: API.Guest,
        until isOver: Watched<Bool>
    ) async throws -> [(call: ThreadCall, answer: ThreadCall.Answer?)] {
        var sent: [(call: ThreadCall, answer: ThreadCall.Answer?)] = []
        for call in plan where !isOver.value {
            let answer = try await call.send(to: api, as: guest)
            sent.append((call, answer))
            if answer == nil { break }
        }
        return sent
    }

    private mutating func plan(_ kind: ThreadCall.Kind) -> [ThreadCall] {
        (0..<Self.callsAtOnce).map { _ in
            count += 1
            return ThreadCall(number: count, kind: kind, thread: anyThread(), key: newKey())
        }
    }

    private mutating func anyThread() -> Identifier {
        let isNew = Int.random(in: 0..<4, using: &random) == 0
        let known = isNew ? nil : shared.randomElement(using: &random)
        return known ?? Identifier(at: SystemWallClock().now(), using: &random)
    }

    private mutating func newKey() -> String {
        Identifier(at: SystemWallClock().now(), using: &random).description
    }

    // MARK: - Devices

    /// A question that a device is going to ask.
    private struct Question: Sendable {
        let text: String
        let thread: Identifier
        let isStreamed: Bool
    }

    private mutating func plan(device: Int) -> [Question] {
        (0..<Self.callsAtOnce).map { _ in
            count += 1
            return Question(
                text: "id=device-\(device)-\(count) words=\(ThreadCall.words)",
                thread: anyThread(),
                isStreamed: Bool.random(using: &random)
            )
        }
    }

    private func ask(
        _ plan: [Question],
        _ device: Int,
        _ port: Int,
        until isOver: Watched<Bool>,
        _ death: Watched<Bool>
    ) async throws -> [Asked] {
        var asked: [Asked] = []
        for question in plan where !isOver.value {
            let (text, thread) = (question.text, question.thread)
            asked.append(
                try await ask(text, thread, device, isStreamed: question.isStreamed, port, death)
            )
        }
        return asked
    }

    /// Asks a question with the real command, which is killed when its death comes.
    private func ask(
        _ text: String,
        _ thread: Identifier,
        _ device: Int,
        isStreamed: Bool,
        _ port: Int,
        _ death: Watched<Bool> = Watched(false)
    ) async throws -> Asked {
        var arguments = ["ask", text, "--thread", thread.description]
        arguments += ["--folder", self.device(device).path]
        arguments += ["--server", "http://127.0.0.1:\(port)"]
        if isStreamed { arguments.append("--stream") }
        return try await Tool.with(arguments) { tool in
            let killer = Task {
                try await death.when("the death of a client") { $0 }
                tool.signal(SIGKILL)
            }
            defer { killer.cancel() }
            return Asked(question: text, isAnswered: try await tool.ended().status == 0)
        }
    }

    // MARK: - Afterwards

    /// Sends all calls again under their keys.
    ///
    /// - Returns: The ends that differ from those that had arrived, in words.
    mutating func repeatAll(on server: ServeProcess) async throws -> [String] {
        let guest = try await server.api.guest(of: device(0))
        let calls = calls
        let answers = try await concurrently(calls.count, atOnce: 8) { number in
            try await calls[number].call.send(to: server.api, as: guest)
        }
        var differences: [String] = []
        for (index, answer) in answers.enumerated() {
            let (call, earlier) = calls[index]
            guard let answer else {
                differences.append("\(call.question) has no end")
                continue
            }
            if let earlier, earlier != answer {
                differences.append("\(call.question) ended as \(earlier), then as \(answer)")
            }
            self.calls[index].answer = answer
        }
        return differences
    }
}
