import Foundation
import Testing

/// `Documentation/Threat-Model.md` names tests that exist.
@Suite("Threat model", .timeLimit(.minutes(15)))
struct ThreatModelTests {
    /// A section of the page: its title, its items by their first word, and the tests in them.
    private struct Threat {
        let title: String
        var items: [String: String] = [:]

        var tests: [String] {
            (items["Tests"] ?? "").matches(of: #/`([^`]+)`/#).map { String($0.1) }
        }
    }

    private func threats() throws -> [Threat] {
        let page = try #require(
            try Repository.files().first { $0.path == "Documentation/Threat-Model.md" }
        )
        return page.text.components(separatedBy: "\n## ").dropFirst().map { section in
            let lines = section.components(separatedBy: "\n")
            var threat = Threat(title: lines[0])
            var name = ""
            for line in lines.dropFirst() where !line.isEmpty {
                if let item = line.wholeMatch(of: #/- ([A-Z][a-z]+): (.*)/#) {
                    name = String(item.1)
                    threat.items[name] = String(item.2)
                } else {
                    threat.items[name, default: ""] += " " + line.drop { $0 == " " }
                }
            }
            return threat
        }
    }

    @Test func `each threat states the attacker, the answer, and tests or what is open`() throws {
        let threats = try threats()
        #expect(threats.count >= 10)
        for threat in threats {
            let names = Set(threat.items.keys)
            #expect(names.isSuperset(of: ["Attacker", "Answer"]), "\(threat.title)")
            #expect(
                names.isSubset(of: ["Attacker", "Answer", "Tests", "Open"]),
                "\(threat.title) has \(names)."
            )
            #expect(!threat.tests.isEmpty || names.contains("Open"), "\(threat.title)")
        }
    }

    @Test func `each test that the threat model names exists`() throws {
        let tests = try Repository.files().filter {
            $0.path.hasPrefix("Tests/") && $0.path.hasSuffix(".swift")
        }
        for threat in try threats() {
            for test in threat.tests {
                #expect(
                    tests.contains { $0.text.contains("func `\(test)`") },
                    "\(threat.title): no test is called `\(test)`. Name the one that replaced it."
                )
            }
        }
    }
}
