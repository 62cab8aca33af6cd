public import Foundation
public import ReadingsModel
public import Sanguine

extension SanguineClient.Configuration {
    /// The configuration of the app and its tests.
    public static func readings(server: URL?, folder: URL) -> Self {
        var configuration = Self(server: server)
        configuration.folder = folder
        configuration.register(readingTypes)
        return configuration
    }
}

extension RecordQuery where Value == [Reading] {
    /// All readings, the newest first.
    public static var history: Self {
        RecordQuery(reading: Reading.collection) { records in
            // Ids are the keys of calls, which are in the order of time.
            records.records(Reading.self).sorted { $1.id < $0.id }
        }
    }
}
