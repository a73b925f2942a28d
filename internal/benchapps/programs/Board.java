import java.awt.FlowLayout;
import java.nio.file.*;
import javax.swing.*;

/** Board is a window with a field, whose text Return writes to a file. Ctrl+D opens a modal dialog, Ctrl+O a file dialog. The menu Edit turns the text into capitals. */
public class Board {
    static void write(String path, String text) {
        try {
            Files.writeString(Path.of(path), text);
        } catch (Exception e) {
            throw new RuntimeException(e);
        }
    }

    public static void main(String[] args) {
        SwingUtilities.invokeLater(() -> {
            JFrame frame = new JFrame("board");
            JTextField field = new JTextField(30);
            field.addActionListener(e -> write(args[0], field.getText()));
            JRootPane root = frame.getRootPane();
            InputMap keys = root.getInputMap(JComponent.WHEN_IN_FOCUSED_WINDOW);
            keys.put(KeyStroke.getKeyStroke("ctrl D"), "dialog");
            keys.put(KeyStroke.getKeyStroke("ctrl O"), "open");
            root.getActionMap().put("dialog", new AbstractAction() {
                public void actionPerformed(java.awt.event.ActionEvent e) {
                    JOptionPane.showMessageDialog(frame, "Read this.", "notice", JOptionPane.INFORMATION_MESSAGE);
                }
            });
            root.getActionMap().put("open", new AbstractAction() {
                public void actionPerformed(java.awt.event.ActionEvent e) {
                    JFileChooser chooser = new JFileChooser();
                    if (chooser.showOpenDialog(frame) == JFileChooser.APPROVE_OPTION) write(args[0], chooser.getSelectedFile().getPath());
                }
            });
            JMenuBar bar = new JMenuBar();
            JMenu menu = new JMenu("Edit");
            menu.setMnemonic('E');
            JMenuItem item = new JMenuItem("Capitals");
            item.addActionListener(e -> field.setText(field.getText().toUpperCase()));
            menu.add(item);
            bar.add(menu);
            frame.setJMenuBar(bar);
            frame.setLayout(new FlowLayout());
            frame.add(field);
            frame.setDefaultCloseOperation(JFrame.EXIT_ON_CLOSE);
            frame.pack();
            frame.setVisible(true);
        });
    }
}
