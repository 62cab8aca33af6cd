package import Foundation
package import Testing

/// A program of the system that some tests run.
package struct SystemTool: Sendable {
    package let name: String
    /// The Debian package that has it, or that of PyPI; `Scripts/install-missing.sh` installs it.
    package let package: String
    /// The folder of the repository that has it; `nil` for those in `PATH`.
    package let folder: String?

    package init(_ name: String, in package: String, folder: String? = nil) {
        (self.name, self.package, self.folder) = (name, package, folder)
    }

    package static let ffmpeg = SystemTool("ffmpeg", in: "ffmpeg")
    package static let ffprobe = SystemTool("ffprobe", in: "ffmpeg")
    package static let exiftool = SystemTool("exiftool", in: "libimage-exiftool-perl")
    package static let vips = SystemTool("vips", in: "libvips-tools")

    /// An S3 storage in Python.
    package static let s3Server = SystemTool("moto_server", in: "moto", folder: ".build-moto/bin")

    /// All tools that tests name.
    package static let all = [ffmpeg, ffprobe, exiftool, vips, s3Server]

    /// The folder of the repository.
    package static let repository = URL(filePath: #filePath).appending(path: "../../..")
        .standardized

    /// Whether the program is in its folder, or in one of the folders of `path`.
    func isInstalled(in path: String) -> Bool {
        if let folder {
            let file = Self.repository.appending(path: "\(folder)/\(name)").path
            return FileManager.default.isExecutableFile(atPath: file)
        }
        return path.split(separator: ":").contains { folder in
            FileManager.default.isExecutableFile(atPath: "\(folder)/\(name)")
        }
    }
}

/// A program that a test needs is not installed, and `REQUIRE_TOOLS` is set.
package struct MissingTool: Error, Equatable, CustomStringConvertible {
    package let description: String
}

/// Decides whether a test can run whose programs may be missing.
package struct ToolCheck: Sendable {
    private let missing: [SystemTool]
    private let isRequired: Bool

    package init(
        _ tools: [SystemTool],
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) {
        missing = tools.filter { !$0.isInstalled(in: environment["PATH"] ?? "") }
        isRequired = environment["REQUIRE_TOOLS"] == "1"
    }

    /// Which packages to install; empty if no tool is missing.
    package var advice: String {
        guard !missing.isEmpty else { return "" }
        let names = missing.map(\.name).joined(separator: ", ")
        guard missing.allSatisfy({ $0.folder == nil }) else {
            return "Not installed: \(names). Run: Scripts/install-missing.sh tests"
        }
        let packages = Set(missing.map(\.package)).sorted().joined(separator: " ")
        return "Not installed: \(names). On Debian, run: apt-get install \(packages)"
    }

    /// Whether the test can run.
    ///
    /// - Throws: ``MissingTool`` if a program is missing and `REQUIRE_TOOLS` is 1.
    package func mayRun() throws(MissingTool) -> Bool {
        guard !missing.isEmpty else { return true }
        if isRequired { throw MissingTool(description: advice) }
        return false
    }
}

extension Trait where Self == ConditionTrait {
    /// Skips the test, with a message, if one of the programs is missing.
    ///
    /// With `REQUIRE_TOOLS=1` in the environment, as `make check` sets it, the test fails instead.
    package static func requires(_ tools: SystemTool...) -> Self {
        let check = ToolCheck(tools)
        let advice = Comment(rawValue: check.advice)
        return .enabled(advice) { try check.mayRun() }  // tidy: allow skipped-test: this is it.
    }
}
