import Foundation
import NIOCore
import SanguineModel
import SanguineServer

/// Attacks of one account on resources that it shares with others in front of a language model.
///
/// These are the model's breaker, runs that several accounts share, and the conversion of films to
/// pictures. The victim calls functions of the same model with its own account.
enum UpstreamAttacks {
    /// The attacks that can be run here.
    static let all = [failures, sharedRuns] + (hasFFmpeg ? [films] : [])
    /// The reason why attacks are missing, or `nil` if none are.
    static let leftOut =
        hasFFmpeg ? nil : "The attack 'films' was left out: install FFmpeg to measure it."

    /// Calls whose prompts make them fail at the model: refused, failed or never answered.
    private static let failures = Attack(name: "failing calls", victim: victim("ask")) { server in
        let prompts = CannedUpstream.Fault.allCases.filter { $0 != .slow }.map(\.rawValue)
        try await server.storm(16, every: .milliseconds(25)) { connection, number in
            FunctionRequests.call(
                "ask",
                server.tokens[0],
                key: "fail-\(connection)-\(number)",
                question: prompts[number % prompts.count]
            )
        }
    }

    /// The account has as many slow calls as it may run, and is the first to ask the victim's next
    /// questions.
    ///
    /// These runs wait for the account's slots, and the victim must not wait with them.
    private static let sharedRuns = Attack(
        name: "shared runs",
        victim: Attack.Victim { token, run in
            { connection, number in
                FunctionRequests.call(
                    "shared",
                    token,
                    key: "\(run)-\(connection)-\(number)",
                    question: sharedQuestion()
                )
            }
        },
        run: { server in
            try await server.storm(12, every: .milliseconds(1)) { connection, number in
                FunctionRequests.call(
                    "shared",
                    server.tokens[0],
                    key: "lead-\(connection)-\(number)",
                    question: connection < 2 * runningPerAccount
                        ? "\(CannedUpstream.Fault.slow.rawValue) \(connection) \(number)"
                        : sharedQuestion(in: 1)
                )
            }
        }
    )

    /// Films that are sent repeatedly and converted to pictures for the model.
    private static let films = Attack(name: "films", victim: victim("ask")) { _ in
        _ = film
    } run: { server in
        guard let film else { throw BenchmarkError.noServer("FFmpeg could not create the film") }
        // Built once: attackers that copy the film for each upload would take processor time and
        // memory from the server, whose real attackers use other machines.
        let upload = upload(of: film, server.tokens[0])
        let id = try await send(film, server)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                try await server.storm(2, every: .milliseconds(100), bytes: { _, _ in upload })
            }
            tasks.addTask {
                try await server.storm(8, every: .milliseconds(100)) { connection, number in
                    Attack.text(
                        "POST",
                        "/v1/functions/film",
                        server.tokens[0],
                        key: "film-\(connection)-\(number)",
                        body: #"{"input":{"question":"\#(number)"},"attachments":["\#(id)"]}"#
                    )
                }
            }
            try await tasks.waitForAll()
        }
    }

    // MARK: - Questions

    private static func victim(_ function: String) -> Attack.Victim {
        Attack.Victim { token, run in
            { connection, number in
                let key = "\(run)-\(connection)-\(number)"
                return FunctionRequests.call(function, token, key: key, question: key)
            }
        }
    }

    /// Returns the question that all callers ask in this twentieth of a second, or in a later one.
    private static func sharedQuestion(in turns: Int = 0) -> String {
        "What is in turn \(Int(ProcessInfo.processInfo.systemUptime * 20) + turns)?"
    }

    // MARK: - Films

    private static let hasFFmpeg = ffmpeg(["-version"])

    /// A film of 20 MB, or `nil` if FFmpeg cannot make one.
    private static let film: Data? = {
        let file = FileManager.default.temporaryDirectory
            .appending(path: "sanguine-film-\(ProcessInfo.processInfo.processIdentifier).mp4")
        defer { try? FileManager.default.removeItem(at: file) }
        let isMade = ffmpeg([
            "-v", "error", "-nostdin", "-f", "lavfi", "-i",
            "testsrc2=size=1280x720:rate=30:duration=30", "-vf", "noise=alls=12:allf=t", "-c:v",
            "mpeg4", "-q:v", "6", "-fs", "20M", file.path,
        ])
        return isMade ? try? Data(contentsOf: file) : nil
    }()

    private static func ffmpeg(_ arguments: [String]) -> Bool {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["ffmpeg"] + arguments
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }

    private static func upload(of film: Data, _ token: String) -> ByteBuffer {
        let head = Attack.head("POST", "/v1/blobs", token, length: film.count, type: "video/mp4")
        var bytes = ByteBuffer(string: head)
        bytes.writeBytes(film)
        return bytes
    }

    /// Uploads the film and returns its id.
    private static func send(_ film: Data, _ server: AttackedServer) async throws -> String {
        struct Stored: Decodable { var id: String }
        let (data, status) = try await LiveBenchmarks.post(
            "/v1/blobs",
            server.tokens[0],
            film,
            type: "video/mp4",
            port: server.port
        )
        guard status == 200 || status == 201 else { throw BenchmarkError.refused(1) }
        return try JSONDecoder().decode(Stored.self, from: data).id
    }

    // MARK: - The server

    /// The number of calls of the shared function that an account may run at once.
    private static let runningPerAccount = 4

    /// Configures a server to use the model at the port, with the functions that are attacked.
    static func configure(_ settings: inout ServerSettings, model port: Int) {
        settings.upstream.url = "http://127.0.0.1:\(port)"
        // Calls that are never answered time out during the measurement.
        settings.upstream.timeout = .seconds(2)
        var shared = FunctionRules(
            price: .fixed(1).cached(0),
            cache: .forever.public(sharing: "question")
        )
        shared.limits.runningPerAccount = runningPerAccount
        settings.functions = [
            FunctionSetting(name: "ask", kind: .upstream, rules: FunctionRules()),
            FunctionSetting(name: "shared", kind: .upstream, rules: shared),
        ]
        guard hasFFmpeg else { return }
        settings.upstream.video = UpstreamConfiguration.Video.frames.rawValue
        settings.functions.append(
            FunctionSetting(
                name: "film",
                kind: .upstream,
                rules: FunctionRules(attachments: AttachmentRules(types: ["video/mp4"]))
            )
        )
    }
}
