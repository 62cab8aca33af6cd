import Foundation
import Testing

/// Mounts that one process alone sees, for tests of disks.
enum Mounts {
    /// Skips a test where this process may not make them: it takes root on Linux.
    ///
    /// No package gives that, so that the test is skipped with `REQUIRE_TOOLS=1`, too.
    static let areNeeded: ConditionTrait = .enabled(  // tidy: allow skipped-test: as said above.
        if: Shell.succeeds("unshare -m mount -t tmpfs tmpfs /mnt 2> /dev/null"),
        "Run as root on Linux: this test mounts a disk of its own."
    )

    /// What a shell does so that the folder can only be read.
    static func readOnly(_ folder: URL) -> String {
        script(
            "mount --bind '\(folder.path)' '\(folder.path)' && "
                + "mount -o remount,ro,bind '\(folder.path)'"
        )
    }

    /// What a shell does so that the folder is a disk of so many MiB.
    static func disk(_ folder: URL, mebibytes: Int) -> String {
        script("mount -t tmpfs -o size=\(mebibytes)m,mode=0700 tmpfs '\(folder.path)'")
    }

    private static func script(_ mount: String) -> String {
        "exec unshare -m sh -c \"\(mount) && exec \\\"\\$@\\\"\" sh \"$@\""
    }
}

/// Commands of the system that take no time.
enum Shell {
    /// Runs the command for 10 seconds at most, and returns whether it ended well.
    static func succeeds(_ command: String) -> Bool {
        let process = Process()
        process.executableURL = URL(filePath: "/bin/sh")
        process.arguments = ["-c", command]
        let end = DispatchSemaphore(value: 0)
        process.terminationHandler = { _ in end.signal() }
        guard (try? process.run()) != nil else { return false }
        return end.wait(timeout: .now() + 10) == .success && process.terminationStatus == 0
    }
}
