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
        let root = FileManager.default.temporaryDirectory.appending(path: "almanac-\(UUID())")
        defer { try? FileManager.default.removeItem(at: root) }
        let folder = ["--folder", root.appending(path: "phone").path]
        let serve = ["serve", "--port", "0", "--data", root.appending(path: "server").path]
        try await Tool.with(serve, of: "Almanac") { tool in
            let server = "http://127.0.0.1:\(try await tool.listeningPort())"
            let options = ["--server", server] + folder
            let wrong = try await Self.run(["birth"] + Self.birth.dropLast(1) + ["200"] + options)
            #expect(wrong.status == 64 && wrong.errors.contains("from -180 to 180"))
            let unset = try await Self.run(["chart"] + options)
            #expect(unset.status == 64 && unset.errors.contains("Almanac birth"))

            let set = try await Self.run(["birth"] + Self.birth + options)
            #expect(set.status == 0, "\(set.errors)")
            #expect(set.output.hasPrefix("born 1990-05-17T11:35:00Z"))
            let chart = try await Self.run(["chart"] + options)
            #expect(chart.output.contains("sun 32.5") && chart.output.contains("taurus"))
            let matrix = try await Self.run(["matrix"] + options)
            #expect(matrix.output.contains("astrodata"))
            tool.signal(SIGTERM)
            #expect(try await tool.ended().status == 0)

            let offline = try await Self.run(["chart"] + options)
            #expect(offline.output == chart.output, "\(offline.errors)")
        }
    }

    private static func run(_ arguments: [String]) async throws -> Tool.Ended {
        try await Tool.with(arguments, of: "Almanac") { try await $0.ended() }
    }
}
