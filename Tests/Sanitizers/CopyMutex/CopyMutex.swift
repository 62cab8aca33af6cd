import Foundation  // tidy: allow import: a plugin of the package manager.
import PackagePlugin  // tidy: allow import: a plugin of the package manager.

/// Compiles a copy of `Tests/Sanitizers/Mutex.swift` into a target.
@main
struct CopyMutex: BuildToolPlugin {
    func createBuildCommands(context: PluginContext, target: any Target) -> [Command] {
        let source = context.package.directoryURL.appending(path: "Tests/Sanitizers/Mutex.swift")
        let copy = context.pluginWorkDirectoryURL.appending(path: "Mutex.swift")
        return [
            .buildCommand(
                displayName: "Copying the mutex of the thread sanitizer",
                executable: URL(filePath: "/bin/cp"),
                arguments: [source.path, copy.path],
                inputFiles: [source],
                outputFiles: [copy]
            )
        ]
    }
}
