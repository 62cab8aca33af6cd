import Foundation
import SanguineServer
import TestSupport
import Testing

@Suite("Settings page", .bounded)
struct SettingsPageTests {
    @Test func `the committed page matches the command's output`() throws {
        let file = URL(filePath: #filePath)
            .appending(path: "../../../Documentation/Settings.md").standardized
        let page = try String(contentsOf: file, encoding: .utf8)

        #expect(
            page == SettingsReference.markdown() + "\n",
            "Run: .build/debug/sanguine config --reference > Documentation/Settings.md"
        )
    }
}
