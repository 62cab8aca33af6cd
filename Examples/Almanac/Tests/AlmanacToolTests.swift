import AlmanacModel
import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The real executable, as a user runs it.
@Suite("Almanac in a terminal", .bounded(.seconds(180)))
struct AlmanacToolTests {
    private static let birth = [
        "--date", "1990-05-17", "--time", "14:35", "--zone", "Europe/Istanbul",
        "--latitude", "41.0082", "--longitude", "28.9784",
    ]

    @Test func `a birth is set, and its chart is shown, also without a server`() async throws {
        try await TemporaryFolder.with { root in
            let app = root.appending(path: "phone")
            let shown = WatchedState<(device: ToolDevice, chart: String)?>(nil)
            try await ToolDevice.serving("Almanac", root.appending(path: "server")) { server, _ in
                let device = ToolDevice("Almanac", server: server, folder: app)
                let wrong = try await device.run(["birth"] + Self.birth.dropLast(1) + ["200"])
                #expect(wrong.status == 64 && wrong.errors.contains("from -180 to 180"))
                let unset = try await device.run(["chart"])
                #expect(unset.status == 64 && unset.errors.contains("Almanac birth"))

                let set = try await device.run(["birth"] + Self.birth)
                #expect(set.status == 0, "\(set.errors)")
                #expect(set.output.hasPrefix("born 1990-05-17T11:35:00Z"))
                let chart = try await device.run(["chart"])
                #expect(chart.output.contains("sun 32.5") && chart.output.contains("taurus"))
                let matrix = try await device.run(["matrix"])
                #expect(matrix.output.contains("astrodata"))
                shown.withLock { $0 = (device, chart.output) }
            }
            let (device, chart) = try #require(shown.value)
            let offline = try await device.run(["chart"])
            #expect(offline.output == chart, "\(offline.errors)")
        }
    }

    @Test func `a question stands in a thread, which is listed, renamed, found and deleted`()
        async throws
    {
        try await TemporaryFolder.with { root in
            let (app, tablet) = (root.appending(path: "phone"), root.appending(path: "tablet"))
            try await ToolDevice.serving("Almanac", root.appending(path: "server")) { server, _ in
                let device = ToolDevice("Almanac", server: server, folder: app)
                #expect(try await device.run(["birth"] + Self.birth).status == 0)
                let asked = try await device.run(["ask", "Will I move?", "--area", "career"])
                #expect(asked.status == 0, "\(asked.errors)")
                let id = try #require(asked.output.split(whereSeparator: \.isWhitespace).last)
                let row = "\(id) career Will I move?, 2\n"
                try await eventually("the title", within: .seconds(30)) {
                    try await device.run(["threads", "--area", "career"]).output == row
                }
                #expect(try await device.run(["threads", "--area", "love"]).output.isEmpty)
                let unknown = try await device.run(["thread", "none"])
                #expect(unknown.status == 64 && unknown.errors.contains("Almanac threads"))

                // Another device of the user has it too, and renames it.
                try DeviceIdentityFile(in: app).copy(to: tablet)
                let other = ToolDevice("Almanac", server: server, folder: tablet)
                let restored = try await other.run(["restore"])
                #expect(restored.output.hasSuffix("100 %\n1 threads, 0 matches\n"))
                #expect(try await other.run(["rename", "\(id)", "The move"]).status == 0)
                let found = try await device.run(["search", "mov"])
                #expect(found.output.contains("\(id) The move"), "\(found.errors)")

                // Nothing listens on this port.
                let offline = ToolDevice("Almanac", server: "http://127.0.0.1:1", folder: app)
                let shown = try await offline.run(["thread", "\(id)"])
                #expect(shown.output.hasPrefix("user, complete: Will I move?\n"))
                #expect(try await device.run(["delete", "\(id)"]).status == 0)
                #expect(try await other.run(["threads"]).output.isEmpty)
            }
        }
    }

    @Test func `feedback outlives kills of app and server, and is delivered once`() async throws {
        try await TemporaryFolder.with { root in
            let (data, phone) = (root.appending(path: "server"), root.appending(path: "phone"))
            let device = { @Sendable (port: Int) in
                ToolDevice("Almanac", server: "http://127.0.0.1:\(port)", folder: phone)
            }
            try await Self.withServer(data) { server, port in
                #expect(try await device(port).run(["birth"] + Self.birth).status == 0)
                // The app is killed once the server has the feedback, which may be before it knows.
                try await device(port).with(["rate", "predict", "--comment", "It rained."]) { app in
                    try await eventually("the feedback", within: .seconds(30)) {
                        try !Self.comments(in: data).isEmpty
                    }
                    app.signal(SIGKILL)
                    _ = try await app.ended()
                }
                server.signal(SIGKILL)
                #expect(try await server.ended().status == -SIGKILL)
            }
            // Nothing listens on this port.
            let offline = try await device(1).run(["rate", "predict", "--comment", "It froze."])
            #expect(offline.status == 0, "\(offline.errors)")

            try await Self.withServer(data) { _, port in
                // Each command of the app sends what waits.
                try await eventually("all feedback", within: .seconds(30)) {
                    _ = try await device(port).run(["matrix"])
                    return try Self.comments(in: data).count == 2
                }
                _ = try await device(port).run(["matrix"])
                #expect(try Self.comments(in: data) == ["It rained.", "It froze."])
            }
        }
    }

    /// Runs the server as a process of its own, which may be killed.
    private static func withServer(
        _ data: URL,
        _ body: @Sendable (Tool, _ port: Int) async throws -> Void
    ) async throws {
        let serve = ["serve", "--port", "0", "--admin-port", "0", "--data", data.path]
        try await Tool.with(serve, of: "Almanac") { server in
            try await body(server, try await server.listeningPort())
        }
    }

    /// Returns the comments in the team's file of feedback.
    private static func comments(in data: URL) throws -> [String] {
        let file = data.appending(path: "feedback.jsonl")
        guard FileManager.default.fileExists(atPath: file.path) else { return [] }
        return try String(contentsOf: file, encoding: .utf8).split(separator: "\n").map {
            try JSONDecoder().decode(Feedback.self, from: Data($0.utf8)).comment
        }
    }
}
