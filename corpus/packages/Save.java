// A program for the Java virtual machine, as it comes: a document that is replaced as a whole, by
// channels.
//
//     java Save init DIR | run DIR [unsynced]
//
// What a document must look like is known to save_check too, which starts faster.
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;

public class Save {
    // Three are enough for what is known; CRASHPOINT_OPERATIONS asks for more.
    private static final int OPERATIONS =
            Integer.parseInt(System.getenv().getOrDefault("CRASHPOINT_OPERATIONS", "3"));

    private static String text(int version) {
        return ("version " + version + "\n").repeat(20 + version % 8);
    }

    private static void save(Path folder, int version, boolean syncs) throws IOException {
        Path fresh = folder.resolve("document.new");
        ByteBuffer bytes = ByteBuffer.wrap(text(version).getBytes(StandardCharsets.UTF_8));
        try (FileChannel file = FileChannel.open(fresh, StandardOpenOption.CREATE,
                StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE)) {
            while (bytes.hasRemaining()) file.write(bytes);
            if (syncs) file.force(true);
        }
        Files.move(fresh, folder.resolve("document"), StandardCopyOption.ATOMIC_MOVE,
                StandardCopyOption.REPLACE_EXISTING);
        try (FileChannel directory = FileChannel.open(folder, StandardOpenOption.READ)) {
            directory.force(true);
        }
    }

    public static void main(String[] arguments) throws IOException {
        Path folder = Path.of(arguments[1]);
        if (arguments[0].equals("init")) {
            save(folder, 0, true);
            return;
        }
        boolean syncs = arguments.length < 3;
        for (int version = 1; version <= OPERATIONS; version++) {
            save(folder, version, syncs);
            System.out.println("saved " + version);
            System.out.flush();
        }
    }
}
