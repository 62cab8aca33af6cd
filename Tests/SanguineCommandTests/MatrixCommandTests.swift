import ArgumentParser
import Foundation
import Sanguine
import TestSupport
import Testing

@testable import SanguineCommand

@Suite("sanguine matrix", .bounded)
struct MatrixCommandTests {
    @Test func `the command's client has three declared queries`() {
        let matrix = MatrixCommand.matrix

        #expect(matrix.rows.map(\.name) == ["$account", "$balance", "$quotas"])
        #expect(matrix.rows.allSatisfy { $0.standing == .declared })
        #expect(matrix.rows.map(\.freshness) == ["1 h", "2 min", "1 min"])
    }

    @Test func `the matrix command is available with JSON output`() throws {
        let command = try SanguineTool.parseAsRoot(["matrix", "--json"])

        #expect((command as? MatrixCommand)?.json == true)
    }
}
